-- verify: one page of the structural scan: every id in exactly one of slots, leases and dead, every place with a body, every slot indexed.
-- ARGV 8 part: bodies|slots|leases|dead|totals | 9 cursor ('0' to begin)
-- Returns {next cursor ('0' at the end), scanned, then kind, subject, place for each finding}. O(page). Writes nothing.
local refusal, meta = open('enqueued', 'closed', 'skipped', 'cancelled', 'adopted', 'evicted')
if refusal then return refusal end
local part, cursor = ARGV[FIRST], ARGV[FIRST + 1]
if not cursor or not string.find(cursor, '^%d+$') then return redis.error_reply('BADCALL verify') end
local answer = { '0', 0 }
local function finding(kind, subject, place)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = kind, subject, place
end
local function bodiless(ids, place)
  if #ids == 0 then return end
  answer[2] = answer[2] + #ids
  local bodies = call('HMGET', BODIES, unpack(ids))
  for i = 1, #ids do
    if not bodies[i] then finding('place_without_body', ids[i], place) end
  end
  return bodies
end
if part == 'bodies' then
  local page = call('HSCAN', BODIES, cursor, 'COUNT', 200)
  answer[1] = page[1]
  for i = 1, #page[2], 2 do
    local id, body = page[2][i], page[2][i + 1]
    answer[2] = answer[2] + 1
    local leased, dead = call('ZSCORE', LEASES, id), call('ZSCORE', DEAD, id)
    local cause, level, _, _, _, next_at = header_of(body)
    local scheduled = cause and in_slot(level, next_at, id)
    local places = (leased and 1 or 0) + (dead and 1 or 0) + (scheduled and 1 or 0)
    if not cause and not dead then
      finding('bad_header', id, leased and 'leases' or '')
    elseif places == 0 then
      finding('body_without_place', id, '')
    elseif places > 1 then
      finding('two_places', id, scheduled and member_of(level, next_at) or 'dead')
    end
    if scheduled then
      local member = member_of(level, next_at)
      if not call('ZSCORE', SLOTS, member) then finding('slot_not_indexed', id, member) end
    end
  end
elseif part == 'slots' then
  local from = tonumber(cursor)
  local members = call('ZRANGE', SLOTS, from, from + 19)
  if #members == 20 then answer[1] = format('%.0f', from + 20) end
  for i = 1, #members do
    local key = SLOT_PREFIX .. members[i]
    if call('EXISTS', key) == 0 then finding('index_without_slot', '', members[i]) end
    local offset = 0
    repeat
      local ids = call('ZRANGE', key, offset, offset + 499)
      local bodies = bodiless(ids, members[i])
      for j = 1, #ids do
        local cause, level, _, _, _, next_at = header_of(bodies[j])
        if cause and member_of(level, next_at) ~= members[i] then finding('two_places', ids[j], members[i]) end
      end
      offset = offset + 500
    until #ids < 500 or offset >= 10000
  end
elseif part == 'leases' or part == 'dead' then
  local from = tonumber(cursor)
  local ids = call('ZRANGE', part == 'leases' and LEASES or DEAD, from, from + 499)
  if #ids == 500 then answer[1] = format('%.0f', from + 500) end
  bodiless(ids, part)
elseif part == 'totals' then
  local total = function(i) return tonumber(meta[i] or 0) end
  local expected = total(5) + total(9) - total(6) - total(7) - total(8) - total(10)
  if expected ~= call('HLEN', BODIES) then finding('totals_off', format('%.0f', expected), format('%.0f', call('HLEN', BODIES))) end
else
  return redis.error_reply('BADCALL verify')
end
return answer
