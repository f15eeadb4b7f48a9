-- settle: writes the verdicts of one batch of leases. Only the holder of the exact fence changes anything.
-- ARGV 8 count (1 to 500), then for each: id | fence us | what | data
--   end: closed or skipped; data = the ended record without its first nine bytes (ended_at is Redis's)
--   retry: attempt counted; data = ms to wait         wait: the same, not counted
--   until: the table says later; data = moment ms      back: given back untouched, due as before
--   bury: data = reason                                stage: next stage; data = '<stage> <moment ms>'
--   An id that stands twice is settled by its first word.
-- Returns one character for each: 1 done (also a repeat that had closed it), 0 stale, 2 ended as cancelled meanwhile.
-- O(count log slot size).
local refusal = open()
if refusal then return refusal end
local n = whole(ARGV[FIRST], 500)
if not n or n == 0 or #ARGV ~= FIRST + 4 * n then return redis.error_reply('BADCALL settle') end

-- Whether `data` is what this verdict needs.
local function fits(what, data)
  if what == 'end' then
    local outcome = byte(data)
    return #data == 28 and (outcome == CLOSED or outcome == SKIPPED)
  elseif what == 'retry' or what == 'wait' or what == 'until' then
    return whole(data, MAX_MS)
  elseif what == 'stage' then
    local stage, moment = string.match(data, '^(%d+) (%d+)$')
    return whole(stage, 255) and whole(moment, MAX_MS)
  end
  return what == 'back' or what == 'bury'
end
local ids, at = {}, FIRST + 1
for i = 1, n do
  if not fits(ARGV[at + 2], ARGV[at + 3]) then return redis.error_reply('BADCALL settle') end
  ids[i] = ARGV[at]
  at = at + 4
end
local any_live = touch()
local current = call('ZMSCORE', LEASES, unpack(ids))
local lives = any_live > 0 and call('HMGET', LIVE, unpack(ids)) or nil

local settled, marks, forget_lives = {}, {}, {}
local leave, left, records = {}, 0, 0 -- ids that leave the leases
local ends, ended_count, remember = { {}, {} }, { 0, 0 }, {} -- ids that end as closed and as skipped, and what is remembered of them
local moving, others = {}, {} -- indices of those that go back to the wheel, and of those that are not ours any more
at = FIRST + 1
for i = 1, n do
  local id, fence, what = ids[i], ARGV[at + 1], ARGV[at + 2]
  -- Redis writes a score of this size as the digits that the caller was given; a number that is written another way is compared too.
  if (current[i] == fence or (current[i] and tonumber(current[i]) == tonumber(fence))) and not settled[id] then
    settled[id], marks[i] = true, '1'
    left = left + 1
    leave[left] = id
    if what == 'end' then
      local data = ARGV[at + 3]
      local outcome = byte(data)
      local count_so_far = ended_count[outcome] + 1
      ended_count[outcome], ends[outcome][count_so_far] = count_so_far, id
      if lives and lives[i] then forget_lives[#forget_lives + 1] = id end
      if KEEP[outcome] > 0 then
        remember[records + 1], remember[records + 2] = id, ended(data)
        records = records + 2
      end
    else
      moving[#moving + 1] = i
    end
  else
    if not whole(fence, 9e15) then return redis.error_reply('BADCALL settle fence') end
    marks[i] = '0'
    if what == 'end' then others[#others + 1] = i end
  end
  at = at + 4
end

-- A repeat whose first answer was lost finds its own fence among the ended.
if #others > 0 then
  local asked = {}
  for k = 1, #others do asked[k] = ids[others[k]] end
  local found = call('HMGET', ENDED, unpack(asked))
  for k = 1, #others do
    if found[k] and sub(found[k], 10) == ARGV[FIRST + 4 * others[k]] then marks[others[k]] = '1' end
  end
end

local plan, writes, retried = new_plan(), {}, 0
if #moving > 0 then
  local asked = {}
  for k = 1, #moving do asked[k] = ids[moving[k]] end
  local bodies = call('HMGET', BODIES, unpack(asked))
  for k = 1, #moving do
    local i = moving[k]
    at = FIRST - 3 + 4 * i
    local id, what, data, body = ids[i], ARGV[at + 2], ARGV[at + 3], bodies[k]
    local cause, level, stage, generation, due_at, next_at, holds, held = header_of(body)
    local attempts, losses, flags, note = live_of(lives and lives[i])
    local was = lives and lives[i]
    if not cause then
      writes[k] = function() set_aside(id, body, now) end
    elseif string.find(flags, 'c', 1, true) then
      marks[i] = '2'
      local fence = tonumber(ARGV[at + 1])
      writes[k] = function() end_cancelled(id, cause, attempts + 1, generation, due_at, fence) end
    elseif what == 'bury' then
      writes[k] = function()
        call('HSET', LIVE, id, live(attempts + 1, 0, flags, note))
        bury(id, sub(data, 1, 4096))
      end
    elseif what == 'back' then
      plan_place(plan, level, next_at, id)
      writes[k] = function() live_write(id, live(attempts, losses, flags, note), was) end
    else
      local at_ms
      if what == 'stage' then
        local to, moment = string.match(data, '^(%d+) (%d+)$')
        stage, at_ms, attempts = tonumber(to), tonumber(moment), 0
      elseif what == 'until' then
        at_ms = math.max(tonumber(data), now)
      else
        at_ms = now + tonumber(data)
        if what == 'retry' then attempts, retried = attempts + 1, retried + 1 end
      end
      at_ms = math.min(at_ms, MAX_MS)
      level = level_of(at_ms)
      plan_place(plan, level, at_ms, id)
      local front = header(cause, level, stage, generation, due_at, at_ms, holds, held)
      writes[k] = function()
        call('HSET', BODIES, id, front .. sub(body, HEADER_BYTES + 1))
        live_write(id, live(attempts, 0, flags, note), was)
      end
    end
  end
  if plan_moved(plan) then return redis.error_reply(TRYAGAIN) end
end
if left == 0 then return table.concat(marks) end

plan_write(plan)
for k = 1, #writes do writes[k]() end
if #remember > 0 then call('HSET', ENDED, unpack(remember)) end
local told = {}
for outcome = CLOSED, SKIPPED do
  local same = ends[outcome]
  if #same > 0 then
    told[#told + 1], told[#told + 2] = OUTCOMES[outcome], table.concat(same, '\n')
    call('HDEL', BODIES, unpack(same))
    count(OUTCOMES[outcome], #same)
  end
end
tell(told)
if #forget_lives > 0 then call('HDEL', LIVE, unpack(forget_lives)) end
call('ZREM', LEASES, unpack(leave))
count('retried', retried)
return table.concat(marks)
