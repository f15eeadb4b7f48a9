-- pause: stops or resumes claiming on one shard. Expired leases are still reaped, and settles still taken.
-- ARGV 8 pause|resume | 9 note (the caller's bytes)
-- Returns 1 when the state changed, else 0. O(1).
local refusal, meta = open('paused')
if refusal then return refusal end
if #ARGV ~= FIRST + 1 then return redis.error_reply('BADCALL pause') end
if ARGV[FIRST] == 'pause' then return call('HSET', META, 'paused', ARGV[FIRST + 1]) end
if ARGV[FIRST] ~= 'resume' then return redis.error_reply('BADCALL pause') end
return call('HDEL', META, 'paused')
