-- job: one runner at a time for a scheduled job of a wheel: a lease on the wheel's own tag whose fence only rises. Who shows an older
-- fence writes nothing, so that a runner that was paused cannot undo what the next one did.
-- KEYS 1 the job's record (hash) | 2 its last runs (stream)
-- ARGV 1 take|save|finish|release | 2 runner, unique for each run | 3 lease us
--   take: 4 since us (a run that began then or later makes a new one needless; 0: none does; asked: all do that nobody asked for). A run
--     that was asked for after the last one began is never needless
--   else: 4 fence | 5 record of the run, '' for none (kept by finish, the last 100) | then pairs of ':field', value ('' removes it)
-- Returns for take {'mine', now us, fence, field, value...}, {'held', now us, left us, runner} or {'fresh', now us, began us};
--   else 1, or 0 where the fence is another: nothing was written. O(pairs).
local call, tonumber, format = redis.call, tonumber, string.format
local function whole(text)
  if not text or #text > 16 or not string.find(text, '^%d+$') then return nil end
  return tonumber(text)
end
local JOB, RUNS, verb, runner, lease, shown = KEYS[1], KEYS[2], ARGV[1], ARGV[2], whole(ARGV[3]), whole(ARGV[4])
local only_asked = verb == 'take' and ARGV[4] == 'asked'
if only_asked then shown = 9e15 end
local VERBS = { take = true, save = true, finish = true, release = true }
if #KEYS ~= 2 or not VERBS[verb] or runner == '' or not lease or lease == 0 or not shown then return redis.error_reply('BADCALL job') end
if verb == 'take' and #ARGV ~= 4 or verb ~= 'take' and (#ARGV < 5 or #ARGV % 2 == 0 or #ARGV > 205) then
  return redis.error_reply('BADCALL job')
end
for i = 6, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 1) ~= ':' then return redis.error_reply('BADCALL field') end
end
local time = call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local stored = call('HMGET', JOB, 'fence', 'runner', 'until', 'ran', 'began', 'asked')
call('XLEN', RUNS)
local fence, ends, ran = tonumber(stored[1] or 0), tonumber(stored[3] or 0), tonumber(stored[4] or 0)

if verb == 'take' then
  if ends > now and stored[2] ~= runner then return { 'held', format('%.0f', now), format('%.0f', ends - now), stored[2] or '' } end
  local asked = tonumber(stored[6] or 0) > ran
  if not asked and (only_asked or shown > 0 and ran >= shown) then return { 'fresh', format('%.0f', now), format('%.0f', ran) } end
  fence = math.max(fence + 1, now)
  local text, answer = format('%.0f', fence), { 'mine', format('%.0f', now), format('%.0f', fence) }
  for _, part in ipairs(call('HGETALL', JOB)) do answer[#answer + 1] = part end
  call('HSET', JOB, 'fence', text, 'runner', runner, 'until', format('%.0f', now + lease), 'began', format('%.0f', now))
  return answer
end

if fence ~= shown then return 0 end
-- A repeat of a call whose answer was lost: the run is over already.
if ends == 0 then return verb == 'save' and 0 or 1 end
local set = { 'until', verb == 'save' and format('%.0f', now + lease) or '0' }
if verb == 'finish' then set[3], set[4] = 'ran', stored[5] or format('%.0f', now) end
local gone = {}
for i = 6, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    gone[#gone + 1] = ARGV[i]
  else
    set[#set + 1], set[#set + 2] = ARGV[i], ARGV[i + 1]
  end
end
call('HSET', JOB, unpack(set))
if #gone > 0 then call('HDEL', JOB, unpack(gone)) end
if verb == 'finish' and ARGV[5] ~= '' then call('XADD', RUNS, 'MAXLEN', 100, '*', 'run', ARGV[5]) end
return 1
