-- verify: one page of the structural scan: every id in exactly one of slots, leases and dead, every place with a body, every slot indexed.
-- ARGV 8 part: bodies|slots|leases|dead|totals | 9 cursor ('0' to begin)
-- Returns {next cursor ('0' at the end), scanned, then kind, subject, place for each finding}. O(page). Writes nothing.
local refusal = open()
if refusal then return refusal end
local part, cursor = ARGV[FIRST], ARGV[FIRST + 1]
if not cursor or not string.find(cursor, '^%d+$') or #ARGV ~= FIRST + 1 then return redis.error_reply('BADCALL verify') end
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
  -- The cursor is the slot's rank in the index and the place within the slot: a large slot takes several pages.
  local WITHIN = 16777216
  local from, offset, budget = floor(tonumber(cursor) / WITHIN), tonumber(cursor) % WITHIN, 1000
  local members = call('ZRANGE', SLOTS, from, from + 99)
  if #members == 100 then answer[1] = format('%.0f', (from + 100) * WITHIN) end
  for i = 1, #members do
    local key, more = SLOT_PREFIX .. members[i], false
    if budget <= 0 then
      answer[1] = format('%.0f', (from + i - 1) * WITHIN + offset)
      break
    end
    if call('EXISTS', key) == 0 then finding('index_without_slot', '', members[i]) end
    repeat
      local ids = call('ZRANGE', key, offset, offset + 499)
      local bodies = bodiless(ids, members[i])
      for j = 1, #ids do
        local cause, level, _, _, _, next_at = header_of(bodies[j])
        if cause and member_of(level, next_at) ~= members[i] then finding('two_places', ids[j], members[i]) end
      end
      more, offset, budget = #ids == 500, offset + 500, budget - 10 - #ids
    until not more or budget <= 0
    if more then
      answer[1] = format('%.0f', (from + i - 1) * WITHIN + offset)
      break
    end
    offset = 0
  end
elseif part == 'leases' or part == 'dead' then
  local from = tonumber(cursor)
  local ids = call('ZRANGE', part == 'leases' and LEASES or DEAD, from, from + 499)
  if #ids == 500 then answer[1] = format('%.0f', from + 500) end
  bodiless(ids, part)
elseif part == 'totals' then
  local expected = counted_bodies()
  if expected ~= call('HLEN', BODIES) then finding('totals_off', format('%.0f', expected), format('%.0f', call('HLEN', BODIES))) end
else
  return redis.error_reply('BADCALL verify')
end
return answer
