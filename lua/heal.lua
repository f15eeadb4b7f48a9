-- heal: mends one finding of the structural scan, if it is still true.
-- ARGV 8 kind | 9 id ('' where the subject is a slot) | 10 place: '<level>:<n>', leases or dead | 11 slots may be moving 0|1
-- On a Cluster an indexed slot that reads as empty may be on its way from another node: to put it anew would leave two of it, to forget
-- it would hide it when it comes. There such a finding is only reported.
-- Returns 1 when something was mended, else 0. O(log n).
local refusal = open()
if refusal then return refusal end
local kind, id, place, may_move = ARGV[FIRST], ARGV[FIRST + 1], ARGV[FIRST + 2], flag(ARGV[FIRST + 3])
if may_move == nil or #ARGV ~= FIRST + 3 then return redis.error_reply('BADCALL heal') end
touch()
local body, leased, dead = call('HGET', BODIES, id), call('ZSCORE', LEASES, id), call('ZSCORE', DEAD, id)
local cause, level, _, generation, due_at, next_at = header_of(body)
local is_slot = string.find(place, '^[0-3]:%d+$') ~= nil

local function leave(where)
  if where == 'leases' then call('ZREM', LEASES, id) return end
  if where == 'dead' then call('ZREM', DEAD, id) call('HDEL', REASONS, id) return end
  local key = SLOT_PREFIX .. where
  local last = call('ZCARD', key) == 1
  if call('ZREM', key, id) == 1 and last then call('ZREM', SLOTS, where) end
end

if kind == 'body_without_place' then
  if not cause or leased or dead or in_slot(level, next_at, id) then return 0 end
  local member = member_of(level, next_at)
  if may_move and call('ZCARD', SLOT_PREFIX .. member) == 0 and call('ZSCORE', SLOTS, member) then return 0 end
  call('ZADD', SLOT_PREFIX .. member, next_at, id)
  call('ZADD', SLOTS, start_of(member), member)
  return 1
elseif kind == 'place_without_body' then
  if body or place == 'dead' then
    if body then return 0 end
    call('HSET', BODIES, id, header(3, 0, 0, now_us, now, now, 0, 0))
    return 1
  end
  local score = is_slot and call('ZSCORE', SLOT_PREFIX .. place, id) or leased
  if not score then return 0 end
  local moment = place == 'leases' and now or tonumber(score)
  set_aside(id, false, moment)
  leave(place)
  return 1
elseif kind == 'two_places' then
  if not cause then return 0 end
  local scheduled = in_slot(level, next_at, id)
  if is_slot and (leased or dead or (scheduled and place ~= member_of(level, next_at))) then
    leave(place)
    return 1
  elseif leased and dead then
    leave('dead')
    return 1
  end
  return 0
elseif kind == 'slot_not_indexed' then
  if not is_slot or call('ZCARD', SLOT_PREFIX .. place) == 0 or call('ZSCORE', SLOTS, place) then return 0 end
  local width = width_of(place)
  call('ZADD', SLOTS, tonumber(sub(place, 3)) * width, place)
  return 1
elseif kind == 'index_without_slot' then
  if not is_slot or may_move or call('EXISTS', SLOT_PREFIX .. place) == 1 then return 0 end
  return call('ZREM', SLOTS, place)
elseif kind == 'bad_header' then
  if cause or dead or not body then return 0 end
  bury(id, 'unreadable header')
  if leased then call('ZREM', LEASES, id) end
  return 1
elseif kind == 'totals_off' then
  local off = call('HLEN', BODIES) - counted_bodies()
  if off == 0 then return 0 end
  call('HINCRBY', META, 'mended', format('%.0f', off))
  return 1
end
return redis.error_reply('BADCALL heal')
