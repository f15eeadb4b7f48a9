-- inspect: everything known of one id.
-- ARGV 8 id
-- Returns {now us, state, at, reason, body, live, ended record, why nothing is claimed}; empty strings for what is not there. O(log n). Writes nothing.
local refusal, meta = open('paused', 'tripped')
if refusal then return refusal end
local id = ARGV[FIRST]
if not id or #id == 0 or #ARGV ~= FIRST then return redis.error_reply('BADCALL inspect') end
local body = call('HGET', BODIES, id)
local lease, dead = call('ZSCORE', LEASES, id), call('ZSCORE', DEAD, id)
local record = call('HGET', ENDED, id)
if not outcome_of(record) then record = false end
local state, at = 'absent', ''
if lease then
  state, at = 'leased', lease
elseif dead then
  state, at = 'dead', dead
elseif body then
  local cause, level, _, _, _, next_at = header_of(body)
  state, at = 'scheduled', format('%.0f', next_at or 0)
  if cause and not in_slot(level, next_at, id) then return redis.error_reply(TRYAGAIN) end
elseif record then
  state = 'ended'
end
return { format('%.0f', now_us), state, at, call('HGET', REASONS, id) or '', body or '', call('HGET', LIVE, id) or '', record or '', meta[5] or meta[6] or '' }
