-- claim: reaps expired leases, then leases the oldest due deadlines to one worker.
-- ARGV 8 limit (1 to 500) | 9 lease us | 10 worker | 11 nonce | 12 may take a suspect 0|1 | 13 poison limit |
--   14 late ms: take only what is at least so late (0 for the shard's preferred worker) |
--   15 until when the worker's tokens of the wheel's rate are good, us (0: there is no rate); nothing is leased after it
-- Returns {now us, next look ms, fence us, state, reaped, alone 0|1, then id, body, live for each}
--   A lease that ends sooner, because it is a reminder's, is named behind the fence: '<fence> <place from 1>:<its fence> ...'
--   state: 'running', 'paused' or 'tripped' (nothing is leased then; expired leases are still reaped).
-- A suspect is an id that lost its lease twice: it is leased alone, by a worker that holds no other suspect, so that a crash names the
-- culprit. Once is no suspicion: a worker that was killed leaves all it had in hand behind, and that must come back at full speed. A repeated nonce returns what is still leased at that claim's fence. O(limit log slot size).
local refusal, meta = open('fence', 'paused', 'tripped', 'claim:' .. tostring(ARGV[FIRST + 2]))
if refusal then return refusal end
local limit, lease_us = whole(ARGV[FIRST], 500), whole(ARGV[FIRST + 1], 864e8)
local worker, nonce, may_suspect = ARGV[FIRST + 2], ARGV[FIRST + 3], flag(ARGV[FIRST + 4])
local poison, late, good = whole(ARGV[FIRST + 5], 1000000), whole(ARGV[FIRST + 6], 3600000), whole(ARGV[FIRST + 7], 9e15)
if may_suspect == nil or not limit or limit == 0 or not lease_us or lease_us == 0 or not poison or not late or not good or #ARGV ~= FIRST + 7 then
  return redis.error_reply('BADCALL claim')
end
local MOST_BYTES = 4194304 -- of bodies in one answer, whatever the limit: an answer is one buffer here, in Redis and in the worker
local any_live = touch()

-- Reap: back to the slot that the header names, due as before; not a failed attempt.
local expired = call('ZRANGEBYSCORE', LEASES, '-inf', now_us, 'WITHSCORES', 'LIMIT', 0, limit)
local reaped = #expired > 0 and seldom().reap(expired, limit, poison, any_live, lease_us) or 0
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
    answer[6] = losses >= SUSPECT and 1 or 0
  end
  return answer
end
if state ~= 'running' then
  answer[2] = math.min(now + 1000, next_lease_end())
  return answer
end

-- A token is good for a second at most, so one that seems good for longer is of before a step of the clock.
if good > 0 and (now_us > good or good - now_us > 1000000) then return answer end

local horizon = now - late
local horizon_text = format('%.0f', horizon) -- Redis would print a number for each slot anew
-- A worker that holds a suspect looks past as many others as there can be.
local window = may_suspect and limit or math.min(limit + any_live, 1000)

-- Walk the started slots by start, into three lists: ids, their slots, and, only where levels mix, their scores. Slots of one level
-- follow each other, so what comes out of them is in order already and nobody needs to look at a score; slots of two levels overlap.
local found, from, scores, walked, enough = {}, {}, {}, {}, false
local PAGE = 32 -- slots looked up at once; a slot that is not empty brings at least one candidate

local function walk(mixed)
  local count_found, level, offset = 0, nil, 0
  local last -- the end of the slot that filled the window
  local cutoff = horizon -- nothing later than the cutoff can be among the oldest of the window
  found, from, scores, walked, enough = {}, {}, {}, {}, false
  local function sort()
    local order, ids, slots, at = {}, {}, {}, {}
    for i = 1, count_found do order[i] = i end
    -- Those of one slot and moment stay in the slot's own order, because they are removed by rank.
    table.sort(order, function(a, b) return scores[a] < scores[b] or (scores[a] == scores[b] and a < b) end)
    count_found = math.min(count_found, window)
    for i = 1, count_found do ids[i], slots[i], at[i] = found[order[i]], from[order[i]], scores[order[i]] end
    found, from, scores = ids, slots, at
    if count_found == window then cutoff = scores[window] end
  end
  repeat
    local started = call('ZRANGEBYSCORE', SLOTS, '-inf', cutoff, 'LIMIT', offset, PAGE, 'WITHSCORES')
    for i = 1, #started, 2 do
      local member, start = started[i], tonumber(started[i + 1])
      if start > (last or cutoff) then enough = true break end
      if not mixed and level and level ~= byte(member) then return false end
      level = byte(member)
      local slot = { member = member, key = SLOT_PREFIX .. member, taken = 0 }
      local due, asked
      if mixed then
        asked = window
        due = peek('ZRANGEBYSCORE', slot.key, '-inf', cutoff, 'WITHSCORES', 'LIMIT', 0, asked) or {}
        for j = 1, #due, 2 do
          count_found = count_found + 1
          found[count_found], from[count_found], scores[count_found] = due[j], slot, tonumber(due[j + 1])
        end
        slot.due = #due / 2
      else
        asked = window - count_found
        due = peek('ZRANGEBYSCORE', slot.key, '-inf', horizon_text, 'LIMIT', '0', asked) or {}
        for j = 1, #due do
          count_found = count_found + 1
          found[count_found], from[count_found] = due[j], slot
        end
        slot.due = #due
      end
      -- Read to its very end: once all of these are gone, so is the slot.
      slot.whole = slot.due < asked and start + width_of(member) - 1 <= cutoff
      walked[#walked + 1] = slot
      if mixed and count_found >= 2 * window then sort() end
      -- Full. The next slot of this level starts behind this one; one that starts before its end is of another level.
      if not mixed and count_found >= window then last = start + width_of(member) - 1 end
    end
    offset = offset + PAGE
    if #started < 2 * PAGE then enough = true end
  until enough or offset >= 4000 -- so many slots only where most are moving, or their keys were deleted by hand
  if mixed then sort() end
  return true
end
if not walk(false) then walk(true) end
local moving, suspects_left = false, false

-- Choose: up to the first suspect; a suspect alone, if this worker may; past suspects, if it may not.
local ids, slots, lives, n, alone = found, from, nil, math.min(#found, limit), 0
if any_live > 0 and #found > 0 then
  local all = call('HMGET', LIVE, unpack(found))
  ids, slots, lives, n = {}, {}, {}, 0
  for i = 1, #found do
    local _, losses = live_of(all[i])
    if losses < SUSPECT then
      n = n + 1
      ids[n], slots[n], lives[n] = found[i], from[i], all[i]
      if n == limit then break end
    elseif may_suspect then
      if n == 0 then ids[1], slots[1], lives[1], n, alone = found[i], from[i], all[i], 1, 1 end
      break
    else
      suspects_left, from[i].skipped = true, true
    end
  end
elseif #found > n then
  ids = { unpack(found, 1, n) }
end

local next_look
local full = alone == 1 or n >= limit
if n > 0 then
  local bodies = call('HMGET', BODIES, unpack(ids))
  local fence = math.max(tonumber(meta[5] or 0) + 2, now_us + lease_us)
  fence = fence + fence % 2
  local fence_text = format('%.0f', fence)
  local leases, held, corrupt, bytes, at = {}, 0, {}, 0, #answer
  local sooner, turned, passed, passed_stages = {}, {}, {}, {} -- reminders, where there are any
  for k = 1, n do
    local id, body, slot = ids[k], bodies[k], slots[k]
    if body then
      bytes = bytes + #body
      if bytes > MOST_BYTES and k > 1 then full = true break end
    end
    slot.taken = slot.taken + 1
    if slot.skipped then slot[slot.taken] = id end
    local stage = ours(body)
    if stage then
      local ends, known = fence_text, lives and lives[k] or ''
      if stage > 0 then
        local turn, own
        body, turn, own = seldom().lease_reminder(body, stage, fence)
        if turn < stage then
          local n_turned = #turned
          turned[n_turned + 1], turned[n_turned + 2], known = id, body, ''
          passed[#passed + 1], passed_stages[#passed_stages + 1] = id, stage
        end
        if own < fence then
          ends = format('%.0f', own)
          sooner[#sooner + 1] = format('%d:%s', held / 2 + 1, ends)
        end
      end
      leases[held + 1], leases[held + 2] = ends, id
      held = held + 2
      answer[at + 1], answer[at + 2], answer[at + 3] = id, body, known
      at = at + 3
    else
      corrupt[#corrupt + 1] = { id, body, slot.key }
    end
  end
  answer[3], answer[6] = #sooner == 0 and fence or fence_text .. ' ' .. table.concat(sooner, ' '), alone
  for k = 1, #walked do
    local slot = walked[k]
    if slot.taken > 0 then
      slot.gone = (slot.whole and slot.due == slot.taken) or call('ZCARD', slot.key) == slot.taken
    end
  end

  -- Adds before removals: an error half-way leaves an id in two places, which the structural scan mends, and never in none.
  if held > 0 then
    call('HSET', META, 'fence', fence_text, 'claim:' .. worker, nonce .. ' ' .. fence_text)
    call('ZADD', LEASES, unpack(leases))
  end
  if #turned > 0 then
    call('HSET', BODIES, unpack(turned))
    -- Attempts, their reason and losses are a stage's own.
    call('HDEL', LIVE, unpack(passed))
    call('HDEL', REASONS, unpack(passed))
    seldom().tell_stages('reminder_failed', passed, passed_stages)
  end
  for k = 1, #corrupt do
    local id, body, key = corrupt[k][1], corrupt[k][2], corrupt[k][3]
    seldom().set_aside(id, body, tonumber(call('ZSCORE', key, id) or now))
  end
  local emptied = {}
  for k = 1, #walked do
    local slot = walked[k]
    if slot.taken > 0 then
      if slot.skipped then
        call('ZREM', slot.key, unpack(slot))
      else
        call('ZREMRANGEBYRANK', slot.key, '0', slot.taken - 1)
      end
      if slot.gone then emptied[#emptied + 1] = slot.member end
    end
  end
  if #emptied > 0 then call('ZREM', SLOTS, unpack(emptied)) end
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
