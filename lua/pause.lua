-- pause: stops or resumes claiming on one shard. Expired leases are still reaped, and settles still taken.
-- ARGV 8 pause|trip|resume | 9 note (the caller's bytes)
--   pause: a person stopped it; trip: the breaker did; resume ends both.
-- Returns 1 when the state changed, else 0. O(1).
local refusal, meta = open('paused')
if refusal then return refusal end
if #ARGV ~= FIRST + 1 then return redis.error_reply('BADCALL pause') end
if ARGV[FIRST] == 'pause' then return call('HSET', META, 'paused', ARGV[FIRST + 1]) end
if ARGV[FIRST] == 'trip' then return call('HSET', META, 'tripped', ARGV[FIRST + 1]) end
if ARGV[FIRST] ~= 'resume' then return redis.error_reply('BADCALL pause') end
return math.min(1, call('HDEL', META, 'paused', 'tripped'))
