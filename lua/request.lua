-- request: remembers a request by the key that its sender gave it, and what it was answered, so that a repeat does nothing twice.
-- KEYS 1 request:<hash of sender and key>
-- ARGV 1 begin|answer|forget | 2 what tells this request from another under the same key | 3 how long to remember, ms | 4 the answer
-- Returns begin: {'new'}: remembered, as one in work; {'work'}: the same is in work; {'other'}: another request; {'done', answer}
--   answer, forget: {'ok'}, or {'other'} where it is not this request's any more, which changes nothing
-- O(1); refused while memory is full.
local call, tonumber = redis.call, tonumber
local KEY, verb, mark, keep = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local known = verb == 'begin' or verb == 'forget' or verb == 'answer'
if not known or #KEYS ~= 1 or #ARGV ~= 4 or mark == '' or not keep or not string.find(ARGV[3], '^%d+$') or keep < 1 or keep > 1e10 then
  return redis.error_reply('BADCALL request')
end
local stored = call('HMGET', KEY, 'mark', 'answer')
if verb == 'begin' then
  if stored[1] and stored[1] ~= mark then return { 'other' } end
  if stored[2] then return { 'done', stored[2] } end
  if stored[1] then return { 'work' } end
  call('HSET', KEY, 'mark', mark)
  call('PEXPIRE', KEY, ARGV[3])
  return { 'new' }
end
if stored[1] ~= mark then return { 'other' } end
if verb == 'forget' then
  call('DEL', KEY)
else
  call('HSET', KEY, 'answer', ARGV[4])
  call('PEXPIRE', KEY, ARGV[3])
end
return { 'ok' }
