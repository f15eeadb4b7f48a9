-- stats: one shard in numbers.
-- ARGV: none of its own.
-- Returns {now ms, bodies, leases, dead, ended, due, oldest due ms or -1, next ms or -1, paused, tripped, then meta's totals as name, count}.
-- O(started slots), at most 5000 of them. Writes nothing.
local refusal, meta = open('paused', 'tripped', 'enqueued', 'closed', 'skipped', 'cancelled', 'buried', 'retried', 'lost', 'reminded', 'reminder_failed')
if refusal then return refusal end
if #ARGV ~= FIRST - 1 then return redis.error_reply('BADCALL stats') end
local due, oldest, next_at, offset = 0, -1, -1, 0
repeat
  local started = call('ZRANGEBYSCORE', SLOTS, '-inf', now, 'LIMIT', offset, 500)
  for i = 1, #started do
    local key = SLOT_PREFIX .. started[i]
    due = due + call('ZCOUNT', key, '-inf', now)
    local head = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or -1)
    if head >= 0 and (next_at < 0 or head < next_at) then next_at = head end
  end
  offset = offset + 500
until #started < 500 or offset >= 5000
if next_at >= 0 and next_at <= now then oldest = next_at end
if next_at < 0 then
  local coming = call('ZRANGEBYSCORE', SLOTS, '(' .. now, '+inf', 'LIMIT', 0, 1)[1]
  if coming then next_at = tonumber(call('ZRANGE', SLOT_PREFIX .. coming, 0, 0, 'WITHSCORES')[2] or -1) end
end
return { now, call('HLEN', BODIES), call('ZCARD', LEASES), call('ZCARD', DEAD), call('HLEN', ENDED), due, oldest, next_at,
  meta[5] and 1 or 0, meta[6] and 1 or 0,
  'enqueued', tonumber(meta[7] or 0), 'closed', tonumber(meta[8] or 0), 'skipped', tonumber(meta[9] or 0),
  'cancelled', tonumber(meta[10] or 0), 'buried', tonumber(meta[11] or 0), 'retried', tonumber(meta[12] or 0), 'lost', tonumber(meta[13] or 0),
  'reminded', tonumber(meta[14] or 0), 'reminder_failed', tonumber(meta[15] or 0) }
