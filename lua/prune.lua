-- prune: forgets ends and events whose time is over. At most about 500 fields a call, so no call blocks Redis for long.
-- ARGV 8 cursor ('0' to begin)
-- Returns {next cursor ('0' at the end), removed}. O(500).
local refusal = open()
if refusal then return refusal end
if not string.find(ARGV[FIRST] or '', '^%d+$') or #ARGV ~= FIRST then return redis.error_reply('BADCALL prune') end
local page = call('HSCAN', ENDED, ARGV[FIRST], 'COUNT', 500)
local old = {}
for i = 1, #page[2], 2 do
  if not outcome_of(page[2][i + 1]) then old[#old + 1] = page[2][i] end
end
-- A small hash comes back whole, whatever COUNT says.
for i = 1, #old, 500 do call('HDEL', ENDED, unpack(old, i, math.min(i + 499, #old))) end
if ARGV[FIRST] == '0' and call('XLEN', EVENTS) > 0 then
  call('XTRIM', EVENTS, 'MINID', '~', format('%.0f', math.max(0, now - tonumber(ARGV[7]))))
end
return { page[1], #old }
