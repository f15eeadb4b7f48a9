-- adopt: takes deadlines over as they are: import, reshard.
-- ARGV 8 count (1 to 100), then for each: state scheduled|dead|ended | id | at ms (next_at, time of death) | body or ended record | live | reason
-- A leased deadline is adopted as scheduled; one that was cancelled meanwhile as ended, since its attempt will not be heard. An id that has a body already is left alone, and so is the second of one id.
-- Returns one character for each: 1 adopted, 0 was there. O(count log slot size); refused while memory is full.
local refusal, meta = open('generation')
if refusal then return refusal end
local n = whole(ARGV[FIRST], 100)
if not n or n == 0 or #ARGV ~= FIRST + 6 * n then return redis.error_reply('BADCALL adopt') end
local ids = {}
for i = 1, n do
  local at = FIRST - 5 + 6 * i
  local state, id, moment, body = ARGV[at], ARGV[at + 1], whole(ARGV[at + 2], MAX_MS), ARGV[at + 3]
  if #id == 0 or not moment or (state ~= 'scheduled' and state ~= 'dead' and state ~= 'ended') then return redis.error_reply('BADCALL adopt') end
  if (state == 'ended' and #body ~= 37) or (state ~= 'ended' and not header_of(body)) then return redis.error_reply('BADCALL adopt body') end
  ids[i] = id
end
touch()
local bodies, past = call('HMGET', BODIES, unpack(ids)), call('HMGET', ENDED, unpack(ids))
local marks, plan, writes, adopted, highest, seen = {}, new_plan(), {}, 0, tonumber(meta[5] or 0), {}
for i = 1, n do
  local at = FIRST - 5 + 6 * i
  local state, id, moment, body, lives, reason = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  marks[i] = '1'
  if state == 'ended' then
    if past[i] then marks[i] = '0' else writes[#writes + 1] = function() call('HSET', ENDED, id, body) end end
  elseif bodies[i] or seen[id] then
    marks[i] = '0'
  elseif select(3, live_of(lives)) == 'c' then
    seen[id] = true
    local cause, _, _, generation, due_at = header_of(body)
    local record = ended(ended_tail(CANCELLED, cause, (live_of(lives)), generation, due_at, 0))
    writes[#writes + 1] = function() if KEEP[CANCELLED] > 0 then call('HSET', ENDED, id, record) end end
  else
    seen[id] = true
    adopted = adopted + 1
    local cause, _, stage, generation, due_at, _, holds, held = header_of(body)
    highest = math.max(highest, generation)
    local level = level_of(moment)
    if state == 'scheduled' then plan_place(plan, level, moment, id) end
    writes[#writes + 1] = function()
      if state == 'dead' then call('ZADD', DEAD, moment, id) end
      if state == 'dead' or (reason ~= '' and (live_of(lives)) > 0) then call('HSET', REASONS, id, reason) end
      if lives ~= '' then call('HSET', LIVE, id, lives) end
      call('HSET', BODIES, id, header(cause, level, stage, generation, due_at, moment, holds, held) .. sub(body, HEADER_BYTES + 1))
    end
  end
end
if plan_moved(plan) then return redis.error_reply(TRYAGAIN) end
plan_write(plan)
for i = 1, #writes do writes[i]() end
call('HSET', META, 'generation', format('%.0f', highest))
count('adopted', adopted)
return table.concat(marks)
