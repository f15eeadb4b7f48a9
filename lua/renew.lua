-- renew: makes leases last longer. The new end is computed from the old one, so repeating the call is harmless; it is odd, so that a
-- repeated claim never finds a renewed lease.
-- ARGV 8 extension us | 9 count (1 to 500), then for each: id | current fence us
-- Returns the new fence for each, '0' where the lease is not this fence's any more. O(count log leases).
local refusal, meta = open('fence')
if refusal then return refusal end
local extension, n = whole(ARGV[FIRST], 864e8), whole(ARGV[FIRST + 1], 500)
if not extension or extension == 0 or not n or n == 0 or #ARGV ~= FIRST + 1 + 2 * n then return redis.error_reply('BADCALL renew') end
local ids, olds = {}, {}
for i = 1, n do
  ids[i], olds[i] = ARGV[FIRST + 2 * i], whole(ARGV[FIRST + 1 + 2 * i], 9e15)
  if not olds[i] then return redis.error_reply('BADCALL renew') end
end
local current = call('ZMSCORE', LEASES, unpack(ids))
local answers, leases, highest = {}, {}, tonumber(meta[5] or 0)
for i = 1, n do
  local new = olds[i] + extension
  if new % 2 == 0 then new = new + 1 end
  local held = tonumber(current[i] or 0)
  if held == new then
    answers[i] = format('%.0f', new)
  elseif held == olds[i] and held > now_us then
    answers[i] = format('%.0f', new)
    leases[#leases + 1], leases[#leases + 2] = answers[i], ids[i]
    highest = math.max(highest, new)
  else
    answers[i] = '0'
  end
end
if #leases > 0 then
  call('HSET', META, 'fence', format('%.0f', highest))
  call('ZADD', LEASES, 'XX', unpack(leases))
end
return answers
