-- format: gives a shard its meta record. Idempotent; refuses another layout.
-- ARGV 8 note of the pause that holds the wheel ('' none) | 9 text of the trip that does ('' none)
--   A new shard is held like the others from its first moment: nothing is claimed from it while the wheel is paused.
-- Returns 1 when the shard was new, 0 when it was there already. O(1).
if not keys_of_one_shard() then return redis.error_reply('BADCALL keys') end
if #ARGV ~= FIRST + 1 then return redis.error_reply('BADCALL format') end
for i = 1, 3 do
  local number = whole(ARGV[i], 1000000)
  if not number or number == 0 then return redis.error_reply('BADCALL format') end
end
local meta = redis.call('HMGET', KEYS[1], 'layout', 'shards', 'width')
if meta[1] then
  if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then
    return redis.error_reply('LAYOUT stored layout ' .. meta[1] .. ', ' .. tostring(meta[2]) .. ' shards, slot width '
      .. tostring(meta[3]) .. ' ms')
  end
  return 0
end
-- Where only the meta record was lost, the fence must still grow.
local last = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2] or '0'
local fields = { 'layout', ARGV[1], 'shards', ARGV[2], 'width', ARGV[3], 'fence', last, 'generation', '0' }
-- Since when: what happened on this shard before was lost, and nobody can say of it that it did not happen.
local time = call('TIME')
fields[#fields + 1], fields[#fields + 2] = 'formatted', format('%.0f', tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000))
if ARGV[FIRST] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'paused', ARGV[FIRST] end
if ARGV[FIRST + 1] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'tripped', ARGV[FIRST + 1] end
redis.call('HSET', KEYS[1], unpack(fields))
return 1
