-- cancel: ends deadlines that must not fire any more.
-- ARGV 8 only the dead 0|1 | 9 count (1 to 500), then the ids, distinct.
-- Returns for each: 'cancelled', 'absent' (remembered all the same), 'leased' (flagged: it ends as cancelled unless this attempt closes
-- it; a reminder's lease is no hindrance), 'not_dead', or {'ended', record}. O(count log slot size).
local refusal, meta = open('generation')
if refusal then return refusal end
local only_dead, n = flag(ARGV[FIRST]), whole(ARGV[FIRST + 1], 500)
if only_dead == nil or not n or n == 0 or #ARGV ~= FIRST + 1 + n then return redis.error_reply('BADCALL cancel') end
local ids = {}
for i = 1, n do
  ids[i] = ARGV[FIRST + 1 + i]
  if #ids[i] == 0 then return redis.error_reply('BADCALL cancel') end
end
touch()
local bodies = call('HMGET', BODIES, unpack(ids))
local leased = call('ZMSCORE', LEASES, unpack(ids))
local dead = call('ZMSCORE', DEAD, unpack(ids))
local past = call('HMGET', ENDED, unpack(ids))
local lives = call('HMGET', LIVE, unpack(ids))

local answers, remember, events, writes, slots, cancelled = {}, {}, {}, {}, {}, 0
for i = 1, n do
  local id = ids[i]
  local attempts, losses, flags, note = live_of(lives[i])
  local cause, level, stage, generation, due_at, next_at = header_of(bodies[i])
  local outcome = outcome_of(past[i])
  -- A leased reminder closes nothing: its lease is taken away, and what its worker says of it is stale.
  local reminding = leased[i] and stage and stage > 0
  if leased[i] and not reminding then
    answers[i] = only_dead and 'not_dead' or 'leased'
    if not only_dead and not string.find(flags, 'c', 1, true) then
      writes[#writes + 1] = function() call('HSET', LIVE, id, live(attempts, losses, flags .. 'c', note)) end
    end
  elseif bodies[i] and (dead[i] or not only_dead) then
    -- Where the header cannot be read its slot is not known either; the claim that finds the place drops it.
    if cause and not dead[i] and not reminding then
      if not in_slot(level, next_at, id) then return redis.error_reply(TRYAGAIN) end
      slots[#slots + 1] = { level, next_at, id }
    end
    answers[i], cancelled = 'cancelled', cancelled + 1
    remember[#remember + 1] = id
    remember[#remember + 1] = ended(ended_tail(CANCELLED, cause or 3, attempts, generation or 0, due_at or 0, 0))
    events[#events + 1] = id
    writes[#writes + 1] = function()
      if dead[i] then call('ZREM', DEAD, id) end
      if dead[i] or attempts > 0 then call('HDEL', REASONS, id) end
      if reminding then call('ZREM', LEASES, id) end
      call('HDEL', BODIES, id)
      if lives[i] then call('HDEL', LIVE, id) end
    end
  elseif bodies[i] or only_dead then
    answers[i] = bodies[i] and 'not_dead' or (outcome and { 'ended', past[i] }) or 'absent'
  elseif outcome then
    answers[i] = { 'ended', past[i] }
  else
    answers[i] = 'absent'
    remember[#remember + 1] = id
    remember[#remember + 1] = ended(ended_tail(CANCELLED, 0, 0, 0, 0, 0))
  end
end
if #remember > 0 and KEEP[CANCELLED] > 0 then call('HSET', ENDED, unpack(remember)) end
tell_all('cancelled', events)
for k = 1, #slots do leave_slot(unpack(slots[k])) end
for k = 1, #writes do writes[k]() end
count('cancelled', cancelled)
return answers
