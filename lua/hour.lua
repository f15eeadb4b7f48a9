-- hour: what all workers did in each of some minutes, as they recorded it.
-- KEYS hour:<minute> ...: up to 60 minutes, counted since the epoch
-- ARGV none besides
-- Returns for each key {text ...}, one for each worker that did anything in that minute. O(keys and workers).
if #KEYS < 1 or #KEYS > 60 or #ARGV ~= 1 then return redis.error_reply('BADCALL hour') end
local minutes = {}
for i = 1, #KEYS do minutes[i] = call('HVALS', KEYS[i]) end
return minutes
