-- record_hour: keeps what one worker did in each of some minutes, beside what others did in them. A repeat changes nothing.
-- KEYS hour:<minute> ...: up to 60 minutes, counted since the epoch
-- ARGV 2 worker | 3 how long to keep them, ms | 4... for each key what the worker did in that minute so far, as text
-- Returns {now us}. O(keys); goes on while memory is full, since it is bounded and just then looked at.
local most, worker, keep = 60, ARGV[FIRST], whole(ARGV[FIRST + 1], 1e8)
if not worker or worker == '' or #worker > 64 or not keep or keep == 0 or #KEYS < 1 or #KEYS > most or #ARGV ~= FIRST + 1 + #KEYS then
  return redis.error_reply('BADCALL record_hour')
end
local prefix = string.match(KEYS[1], '^(.*}:)') or ''
for i = 1, #KEYS do
  local minute = string.match(KEYS[i], '}:hour:(%d+)$')
  if not minute or KEYS[i] ~= prefix .. 'hour:' .. minute then return redis.error_reply('BADCALL keys') end
  if #ARGV[FIRST + 1 + i] > 512 then return redis.error_reply('BADCALL too long') end
end
-- A key of another type is met here, before anything is written.
for i = 1, #KEYS do call('HLEN', KEYS[i]) end
local now = clock()
if not now then return redis.error_reply('BADCALL fixed now') end
for i = 1, #KEYS do
  call('HSET', KEYS[i], worker, ARGV[FIRST + 1 + i])
  call('PEXPIRE', KEYS[i], ARGV[FIRST + 1])
end
return { now }
