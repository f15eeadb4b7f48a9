-- claim: reaps expired leases, then leases the oldest due deadlines to one worker.
-- ARGV 8 limit (1 to 500) | 9 lease us | 10 worker | 11 nonce | 12 may take a suspect 0|1 | 13 poison limit |
--   14 late ms: take only what is at least so late (0 for the shard's preferred worker)
-- Returns {now us, next look ms, fence us, state, reaped, alone 0|1, then id, body, live for each}
--   state: 'running', 'paused' or 'tripped' (nothing is leased then; expired leases are still reaped).
-- A suspect is an id that lost a lease before: it is leased alone, by a worker that holds no other suspect, so that a crash names the
-- culprit. A repeated nonce returns what is still leased at that claim's fence. O(limit log slot size).
local refusal, meta = open('fence', 'paused', 'tripped', 'claim:' .. tostring(ARGV[FIRST + 2]))
if refusal then return refusal end
local limit, lease_us = whole(ARGV[FIRST], 500), whole(ARGV[FIRST + 1], 864e8)
local worker, nonce, may_suspect = ARGV[FIRST + 2], ARGV[FIRST + 3], flag(ARGV[FIRST + 4])
local poison, late = whole(ARGV[FIRST + 5], 1000000), whole(ARGV[FIRST + 6], 3600000)
if may_suspect == nil or not limit or limit == 0 or not lease_us or lease_us == 0 or not poison or not late or #ARGV ~= FIRST + 6 then
  return redis.error_reply('BADCALL claim')
end
local MOST_BYTES = 4194304 -- of bodies in one answer, whatever the limit: an answer is one buffer here, in Redis and in the worker
local any_live = touch()

-- Reap: back to the slot that the header names, due as before; not a failed attempt.
local reaped = reap(limit, poison, any_live)
any_live = any_live + reaped -- each has a loss to its name now
local state = (meta[7] and 'tripped') or (meta[6] and 'paused') or 'running'
local answer = { now_us, now, 0, state, reaped, 0 }

local function next_lease_end()
  local head = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  return head and floor(tonumber(head) / 1000) + 1 or math.huge
end

-- The same nonce again: the first answer was lost on its way.
local last_nonce, last_fence = string.match(meta[8] or '', '^(%S+) (%d+)$')
if last_nonce == nonce then
  local held = call('ZRANGEBYSCORE', LEASES, last_fence, last_fence)
  answer[3] = tonumber(last_fence)
  for i = 1, #held do
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3] = held[i], call('HGET', BODIES, held[i]) or '', call('HGET', LIVE, held[i]) or ''
  end
  if #held == 1 then
    local _, losses = live_of(answer[#answer])
    answer[6] = losses > 0 and 1 or 0
  end
  return answer
end
if state ~= 'running' then
  answer[2] = math.min(now + 1000, next_lease_end())
  return answer
end

local horizon = now - late
-- A worker that holds a suspect looks past as many others as there can be.
local window = may_suspect and limit or math.min(limit + any_live, 1000)

local function older(a, b) return a[1] < b[1] or (a[1] == b[1] and a[4] < b[4]) end

-- Walk the started slots by start. Candidates are {score, id, slot, turn}; oldest first once sorted, and those of one slot and moment in
-- the slot's own order, because they are removed by rank.
local found, sorted, walked, moving, suspects_left = {}, true, {}, false, false
local last_score, cutoff = -1, horizon -- nothing later than the cutoff can be among the oldest of the window
local page, offset, enough = limit + 8, 0, false
repeat
  local started = call('ZRANGEBYSCORE', SLOTS, '-inf', cutoff, 'LIMIT', offset, page, 'WITHSCORES')
  for i = 1, #started, 2 do
    local member, start = started[i], tonumber(started[i + 1])
    if start > cutoff then enough = true break end
    local key = SLOT_PREFIX .. member
    local due = peek('ZRANGEBYSCORE', key, '-inf', cutoff, 'WITHSCORES', 'LIMIT', 0, window)
    if not due then due, moving = {}, true end
    local slot = { member = member, key = key, taken = 0, due = #due / 2, over = start + width_of(member) - 1 <= cutoff }
    walked[#walked + 1] = slot
    for j = 1, #due, 2 do
      local score = tonumber(due[j + 1])
      if score < last_score then sorted = false end
      last_score = score
      local turn = #found + 1
      found[turn] = { score, due[j], slot, turn }
    end
    -- Slots of one level come sorted; where levels mix, sorting waits until it pays.
    if #found >= window and (sorted or #found >= 2 * window) then
      if not sorted then table.sort(found, older) end
      for j = #found, window + 1, -1 do found[j] = nil end
      sorted, cutoff = true, found[window][1]
      last_score = cutoff
    end
  end
  offset = offset + page
  if #started < 2 * page then enough = true end
until enough or offset >= 4000 -- so many slots only where most are moving, or their keys were deleted by hand
if not sorted then table.sort(found, older) end

-- Choose: up to the first suspect; a suspect alone, if this worker may; past suspects, if it may not.
local ids, taken, alone = {}, {}, 0
for i = 1, math.min(#found, window) do ids[i] = found[i][2] end
local lives = (any_live > 0 and #ids > 0) and call('HMGET', LIVE, unpack(ids)) or nil
for i = 1, #ids do
  if #taken == limit then break end
  local suspect = false
  if lives and lives[i] then
    local _, losses = live_of(lives[i])
    suspect = losses > 0
  end
  if not suspect then
    taken[#taken + 1] = i
  elseif may_suspect then
    if #taken == 0 then taken[1], alone = i, 1 end
    break
  else
    suspects_left = true
    found[i][3].skipped = true
  end
end

local next_look
local full = alone == 1 or #taken >= limit
if #taken > 0 then
  ids = {}
  for k = 1, #taken do ids[k] = found[taken[k]][2] end
  local bodies = call('HMGET', BODIES, unpack(ids))
  local fence = math.max(tonumber(meta[5] or 0) + 2, now_us + lease_us)
  fence = fence + fence % 2
  local fence_text = format('%.0f', fence)
  local leases, corrupt, bytes = {}, {}, 0
  for k = 1, #ids do
    local id, body, slot = ids[k], bodies[k], found[taken[k]][3]
    bytes = bytes + (body and #body or 0)
    if bytes > MOST_BYTES and k > 1 then full = true break end
    slot.taken = slot.taken + 1
    slot[slot.taken] = id
    if header_of(body) then
      local at = #leases
      leases[at + 1], leases[at + 2] = fence_text, id
      at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = id, body, lives and lives[taken[k]] or ''
    else
      corrupt[#corrupt + 1] = { id, body, found[taken[k]][1] }
    end
  end
  answer[3], answer[6] = fence, alone
  for k = 1, #walked do
    local slot = walked[k]
    if slot.taken > 0 then
      slot.gone = (slot.over and slot.due == slot.taken and slot.due < window) or call('ZCARD', slot.key) == slot.taken
    end
  end

  -- Adds before removals: an error half-way leaves an id in two places, which the structural scan mends, and never in none.
  if #leases > 0 then
    call('HSET', META, 'fence', fence_text, 'claim:' .. worker, nonce .. ' ' .. fence_text)
    call('ZADD', LEASES, unpack(leases))
  end
  for k = 1, #corrupt do
    local id, body, score = corrupt[k][1], corrupt[k][2], corrupt[k][3]
    set_aside(id, body, score)
  end
  for k = 1, #walked do
    local slot = walked[k]
    if slot.taken > 0 then
      if slot.skipped then
        call('ZREM', slot.key, unpack(slot))
      else
        call('ZREMRANGEBYRANK', slot.key, 0, slot.taken - 1)
      end
      if slot.gone then call('ZREM', SLOTS, slot.member) end
    end
  end
end

-- When to look again: at once after a full batch, else at the earliest of the heads, the next slot's start, the next lease end.
if full then
  next_look = now
else
  next_look = next_lease_end()
  for k = 1, #walked do
    local slot = walked[k]
    if not slot.gone then
      local head = peek('ZRANGE', slot.key, 0, 0, 'WITHSCORES')
      head = head and tonumber(head[2])
      if not head then
        moving = true
      else
        -- A head that is due but was left is a suspect that waits for its turn, or the start of a batch that ended at one.
        if head <= horizon and suspects_left then
          local next_head = call('ZRANGEBYSCORE', slot.key, '(' .. format('%.0f', horizon), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
          head = math.min(horizon + 20, tonumber(next_head or math.huge))
        end
        next_look = math.min(next_look, head + late)
      end
    end
  end
  if moving then next_look = math.min(next_look, now + 100) end
  local coming = call('ZRANGEBYSCORE', SLOTS, '(' .. format('%.0f', horizon), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if coming then next_look = math.min(next_look, tonumber(coming) + late) end
  if not enough then next_look = math.min(next_look, now + 100) end
end
if next_look == math.huge then next_look = 0 end
answer[2] = next_look
return answer
