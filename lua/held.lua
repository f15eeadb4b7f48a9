-- held: what the wheel knows of many ids, a letter for each.
-- ARGV 8 count (1 to 500) | id...
-- Returns one text: s scheduled, p scheduled and due, but in no place, l leased, d dead, e ended and still remembered, a absent, in
--   the order of the ids. O(count). Writes nothing.
local refusal = open()
if refusal then return refusal end
local n = whole(ARGV[FIRST], 500)
if not n or n == 0 or #ARGV ~= FIRST + n then return redis.error_reply('BADCALL held') end
local ids = {}
for i = 1, n do ids[i] = ARGV[FIRST + i] end
local any_ended = call('HLEN', ENDED) > 0
local bodies = call('HMGET', BODIES, unpack(ids))
local leased = call('ZCARD', LEASES) > 0 and call('ZMSCORE', LEASES, unpack(ids)) or {}
local dead = call('ZCARD', DEAD) > 0 and call('ZMSCORE', DEAD, unpack(ids)) or {}
local past = any_ended and call('HMGET', ENDED, unpack(ids)) or {}
local letters = {}
for i = 1, n do
  if leased[i] then
    letters[i] = 'l'
  elseif dead[i] then
    letters[i] = 'd'
  elseif bodies[i] then
    -- What is not due yet may wait for the structural scan; what is due and in no slot would wait for ever.
    local cause, level, _, _, _, next_at = header_of(bodies[i])
    letters[i] = (not cause or next_at > now or in_slot(level, next_at, ids[i])) and 's' or 'p'
  else
    letters[i] = outcome_of(past[i]) and 'e' or 'a'
  end
end
return table.concat(letters)
