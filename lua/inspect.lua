-- inspect: everything known of some ids.
-- ARGV 8 count (1 to 500) | id...
-- Returns {now us, why nothing is claimed, then for each id: state, at, reason, body, live, ended record}; empty strings for what is not
--   there. O(count log n). Writes nothing.
local refusal, meta = open('paused', 'tripped')
if refusal then return refusal end
local n = whole(ARGV[FIRST], 500)
if not n or n == 0 or #ARGV ~= FIRST + n then return redis.error_reply('BADCALL inspect') end
local ids = {}
for i = 1, n do
  local id = ARGV[FIRST + i]
  if #id == 0 then return redis.error_reply('BADCALL inspect') end
  ids[i] = id
end
local bodies, lives = call('HMGET', BODIES, unpack(ids)), call('HMGET', LIVE, unpack(ids))
local leased, dead = call('ZMSCORE', LEASES, unpack(ids)), call('ZMSCORE', DEAD, unpack(ids))
local reasons, past = call('HMGET', REASONS, unpack(ids)), call('HMGET', ENDED, unpack(ids))
local answer = { format('%.0f', now_us), meta[5] or meta[6] or '' }
for i = 1, n do
  local body, record = bodies[i], past[i]
  if not outcome_of(record) then record = false end
  local state, at = 'absent', ''
  if leased[i] then
    state, at = 'leased', leased[i]
  elseif dead[i] then
    state, at = 'dead', dead[i]
  elseif body then
    local cause, level, _, _, _, next_at = header_of(body)
    state, at = 'scheduled', format('%.0f', next_at or 0)
    if cause and not in_slot(level, next_at, ids[i]) then return redis.error_reply(TRYAGAIN) end
  elseif record then
    state = 'ended'
  end
  local last = #answer
  answer[last + 1], answer[last + 2], answer[last + 3] = state, at, reasons[i] or ''
  answer[last + 4], answer[last + 5], answer[last + 6] = body or '', lives[i] or '', record or ''
end
return answer
