-- format: gives a shard its meta record. Idempotent; refuses another layout.
-- ARGV: none of its own.
-- Returns 1 when the shard was new, 0 when it was there already. O(1).
if not keys_of_one_shard() then return redis.error_reply('BADCALL keys') end
if #ARGV ~= FIRST - 1 then return redis.error_reply('BADCALL format') end
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
redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'shards', ARGV[2], 'width', ARGV[3], 'fence', last, 'generation', '0')
return 1
