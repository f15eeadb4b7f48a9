-- shard: the keys of one shard, its meta record and its clock.
--
-- Every script gets the same nine KEYS, in this order, and the same seven ARGV in front of its own:
--   ARGV 1 layout | 2 shards | 3 slot width ms | 4 fixed now in us, or '' (only where meta says clock=test)
--   ARGV 5 keep closed and skipped ms | 6 keep cancelled ms | 7 keep events ms   (0: not remembered)
local META, SLOTS, BODIES, LEASES, LIVE, DEAD, REASONS, ENDED, EVENTS =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local FIRST = 8 -- the verb's own first argument
local call, tonumber, floor, format = redis.call, tonumber, math.floor, string.format
local WIDTH = tonumber(ARGV[3])
local now_us, now -- Redis's clock, microseconds and milliseconds: set once by open()

-- true or false for 1 or 0; nil for anything else.
local function flag(text)
  if text == '1' then return true end
  if text == '0' then return false end
  return nil
end

local MAX_MS = 253402300799999 -- 9999-12-31T23:59:59.999Z
local NAMES = { 'meta', 'slots', 'bodies', 'leases', 'live', 'dead', 'reasons', 'ended', 'events' }

-- Whether these are the nine keys of one shard, in their order.
local function keys_of_one_shard()
  if #KEYS ~= 9 or string.sub(META, -5) ~= ':meta' then return false end
  local prefix = string.sub(META, 1, -5)
  for i = 2, 9 do
    if KEYS[i] ~= prefix .. NAMES[i] then return false end
  end
  return true
end

-- Reads meta and the clock. Returns an error reply where the call must not go on, else nil and the fields asked for.
local function open(...)
  if not keys_of_one_shard() then return redis.error_reply('BADCALL keys') end
  if not (whole(ARGV[5], 9e15) and whole(ARGV[6], 9e15) and whole(ARGV[7], 9e15)) then return redis.error_reply('BADCALL keep') end
  local meta = call('HMGET', META, 'layout', 'shards', 'width', 'clock', ...)
  if not meta[1] then return redis.error_reply('UNFORMATTED shard has no meta record') end
  if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then
    return redis.error_reply('LAYOUT stored layout ' .. meta[1] .. ', ' .. tostring(meta[2]) .. ' shards, slot width '
      .. tostring(meta[3]) .. ' ms')
  end
  if ARGV[4] ~= '' then
    now_us = whole(ARGV[4], 9e15)
    if meta[4] ~= 'test' or not now_us then return redis.error_reply('BADCALL fixed now') end
  else
    local time = call('TIME')
    now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  end
  now = floor(now_us / 1000)
  return nil, meta
end

-- Reads every fixed key once, so that a wrong type, a missing right or a moving hash slot is met before the first write.
-- Returns how many fields live and ended have: both are usually nearly empty of the ids at hand.
local function touch()
  call('ZCARD', SLOTS); call('HLEN', BODIES); call('ZCARD', LEASES); call('ZCARD', DEAD); call('HLEN', REASONS); call('XLEN', EVENTS)
  return call('HLEN', LIVE), call('HLEN', ENDED)
end

local function count(what, by)
  if by > 0 then call('HINCRBY', META, what, by) end
end
