-- audit: writes one entry of the operators' audit, while memory is full too: whoever pauses or closes then must leave a trace as well.
-- KEYS 1 audit
-- ARGV 1 entries to keep, about | then pairs of field, value (1 to 20 pairs)
-- Returns the entry's stamp. O(1), and what is trimmed.
local call, tonumber = redis.call, tonumber
local KEY, keep = KEYS[1], tonumber(ARGV[1])
if #KEYS ~= 1 or not keep or not string.find(ARGV[1], '^%d+$') or keep < 1 or keep > 1e7 or #ARGV < 3 or #ARGV % 2 == 0 or #ARGV > 41 then
  return redis.error_reply('BADCALL audit')
end
local pairs_of = {}
for i = 2, #ARGV do pairs_of[i - 1] = ARGV[i] end
return call('XADD', KEY, 'MAXLEN', '~', ARGV[1], '*', unpack(pairs_of))
