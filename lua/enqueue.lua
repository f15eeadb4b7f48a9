-- enqueue: places deadlines in the wheel; the same id and moment twice is once.
-- ARGV 8 on conflict: keep|replace|later|earlier | 9 force over ended 0|1 | 10 cause number | 11 count (1 to 500), then for each, ids distinct:
--   id | due_at ms, or +ms after now | body: what follows the generation in a header (due_at 8, next_at 8, holds 1, held 4; with +ms the
--   moments are filled in here), then MessagePack, in which lua/lib/stage.lua finds the reminders: the first to come fires next
-- Returns {now us, generation us, answer...}: 1 new, or {word, due_at ms, generation us, ended record}; no answers at all where all are new
--   exists|conflict|replaced|resurrected|leased|dead|ended. An id whose stored header cannot be read is buried: dead.
-- O(count log slot size); refused while memory is full.
local refusal, meta = open('generation')
if refusal then return refusal end
local on_conflict, force, cause, n = ARGV[FIRST], flag(ARGV[FIRST + 1]), whole(ARGV[FIRST + 2], 255), whole(ARGV[FIRST + 3], 500)
local KNOWN = { keep = true, replace = true, later = true, earlier = true }
if not KNOWN[on_conflict] or force == nil or not cause or not n or n == 0 or #ARGV ~= FIRST + 3 + 3 * n then return redis.error_reply('BADCALL enqueue') end
local ids, dues, texts, at = {}, {}, {}, FIRST + 4
for i = 1, n do
  ids[i], texts[i] = ARGV[at], ARGV[at + 1]
  if ids[i] == '' or #texts[i] > 16 or #ARGV[at + 2] < MOMENTS_BYTES then return redis.error_reply('BADCALL deadline') end
  at = at + 3
end
-- Digits and signs only, in one look at all of them: tonumber alone takes nan, 0x10 and 1e400.
if string.find(table.concat(texts, ','), '[^%d,+]') then return redis.error_reply('BADCALL due_at') end
for i = 1, n do
  local text = texts[i]
  local due
  if byte(text) == 43 then -- '+': so long after now
    due = whole(sub(text, 2), MAX_MS)
    due, texts[i] = due and due + now, false
  else
    due = tonumber(text)
  end
  if not due or due > MAX_MS then return redis.error_reply('BADCALL due_at') end
  dues[i] = due
end
local _, any_ended = touch()
local stored = call('HMGET', BODIES, unpack(ids))
local past = any_ended > 0 and call('HMGET', ENDED, unpack(ids)) or {}
local generation = math.max(tonumber(meta[5] or 0) + 1, now_us)

local answers, plan, bodies, moved_out, events, fresh, all_new = { now_us, generation }, new_plan(), {}, {}, {}, 0, true
local new_lives, unreadable = {}, {}
local fronts, placed = {}, 0 -- the front of a new header is the same for all of a level
for i = 1, n do
  local id, due, body = ids[i], dues[i], stored[i]
  local answer, place = 1, true
  local tail, stage, next_at = ARGV[FIRST + 3 + 3 * i], 0, due
  if byte(tail, MOMENTS_BYTES + 3) == R then stage, next_at = coming_stage(tail, MOMENTS_BYTES, 255, due) end
  if body then
    local was_cause, level, _, was_generation, was_due, was_next = header_of(body)
    place = false
    if call('ZSCORE', LEASES, id) then
      answer = { 'leased', was_due or 0, was_generation or 0 }
    elseif call('ZSCORE', DEAD, id) then
      answer = { 'dead', was_due or 0, was_generation or 0 }
    elseif not was_cause then
      answer, unreadable[#unreadable + 1] = { 'dead', 0, 0 }, id
    elseif not in_slot(level, was_next, id) then
      return redis.error_reply(TRYAGAIN)
    elseif was_due == due and on_conflict ~= 'replace' then
      answer = { 'exists', was_due, was_generation }
    elseif on_conflict == 'replace' or (on_conflict == 'later' and due > was_due) or (on_conflict == 'earlier' and due < was_due) then
      answer, place, new_lives[#new_lives + 1] = { 'replaced', due, generation }, true, id
      local new_level = level_of(next_at)
      if member_of(new_level, next_at) ~= member_of(level, was_next) then moved_out[#moved_out + 1] = { level, was_next, id } end
    else
      answer = { 'conflict', was_due, was_generation }
    end
  elseif past[i] then
    local outcome = outcome_of(past[i])
    if outcome and force then
      answer = { 'resurrected', due, generation }
      events[#events + 1] = id
    elseif outcome then
      answer, place = { 'ended', 0, 0, past[i] }, false
    end
  end
  if place then
    local level, text = level_of(next_at), stage == 0 and texts[i]
    plan_place(plan, level, next_at, id, text or nil)
    local front = stage == 0 and fronts[level]
    if not front then
      front = pack('>BBBBI8', FORMAT, cause, level, stage, generation)
      if stage == 0 then fronts[level] = front end
    end
    bodies[placed + 1], bodies[placed + 2] = id, text and front .. tail or front .. pack('>I8I8', due, next_at) .. sub(tail, 17)
    placed = placed + 2
    if not body then fresh = fresh + 1 end
  end
  if answer ~= 1 then all_new = false end
  answers[i + 2] = answer
end
if all_new then answers = { now_us, generation } end
if #bodies == 0 and #unreadable == 0 then return answers end
if plan_moved(plan) then return redis.error_reply(TRYAGAIN) end

-- Places before bodies: a body without a place would answer `exists` and never fire; a place without a body is seen and buried.
plan_write(plan)
for i = 1, #unreadable do set_aside(unreadable[i], true) end
if #bodies == 0 then return answers end
call('HSET', BODIES, unpack(bodies))
if #new_lives > 0 then
  call('HDEL', LIVE, unpack(new_lives))
  call('HDEL', REASONS, unpack(new_lives))
end
for i = 1, #moved_out do leave_slot(unpack(moved_out[i])) end
call('HSET', META, 'generation', format('%.0f', generation))
count('enqueued', fresh)
tell_all('resurrected', events)
return answers
