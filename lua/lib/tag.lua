-- tag: what the scripts on the wheel's own tag share, beside its shards. They run alone: no shard's keys, no slots, no ids.
--   ARGV 1 fixed now in us, or '' (only where the first key says clock=test)
local call, tonumber, floor, format = redis.call, tonumber, math.floor, string.format
local FIRST = 2 -- the verb's own first argument

-- The wheel's own keys must bear these names, in this order, on one tag.
local function keys_named(...)
  local names = { ... }
  if #KEYS ~= #names then return false end
  local prefix = string.match(KEYS[1], '^(.*}:)') or ''
  for i = 1, #names do
    if KEYS[i] ~= prefix .. names[i] then return false end
  end
  return true
end

-- Redis's clock in microseconds; nil where the fixed one is not allowed.
local function clock(test_clock)
  if ARGV[1] == '' then
    local time = call('TIME')
    return tonumber(time[1]) * 1000000 + tonumber(time[2])
  end
  return test_clock == 'test' and whole(ARGV[1], 9e15) or nil
end
