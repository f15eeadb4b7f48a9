-- list: one page of deadlines in one state, by time.
-- ARGV 8 state: scheduled|leased|dead | 9 from ms | 10 to ms | 11 after id (skip scores equal to `from` up to this id, '' none) | 12 limit
-- Returns {id, at ms, body, live, reason for each}. O(limit log n). Writes nothing.
local refusal = open()
if refusal then return refusal end
local state, from, to, after, limit = ARGV[FIRST], whole(ARGV[FIRST + 1], MAX_MS), whole(ARGV[FIRST + 2], MAX_MS), ARGV[FIRST + 3], whole(ARGV[FIRST + 4], 500)
if not from or not to or not after or not limit or limit == 0 then return redis.error_reply('BADCALL list') end
local found = {}
-- Adds what is in range and behind the cursor; returns whether the key may hold more.
local function gather(key, low, high, scale)
  local offset = 0
  repeat
    local page = call('ZRANGEBYSCORE', key, format('%.0f', low), format('%.0f', high), 'WITHSCORES', 'LIMIT', offset, limit)
    for i = 1, #page, 2 do
      local at = floor(tonumber(page[i + 1]) / scale)
      if at > from or after == '' or page[i] > after then found[#found + 1] = { at, page[i] } end
    end
    offset = offset + limit
  until #page < 2 * limit or #found >= limit or offset >= 5000
end
local function earlier(x, y) return x[1] < y[1] or (x[1] == y[1] and x[2] < y[2]) end
if state == 'leased' then
  gather(LEASES, from * 1000, to * 1000 + 999, 1000)
elseif state == 'dead' then
  gather(DEAD, from, to, 1)
elseif state == 'scheduled' then
  local widest, offset, done = WIDTH * FACTOR ^ MAX_LEVEL, 0, false
  repeat
    local index = call('ZRANGEBYSCORE', SLOTS, format('%.0f', math.max(0, from - widest)), format('%.0f', to), 'WITHSCORES', 'LIMIT', offset, 500)
    for i = 1, #index, 2 do
      local start = tonumber(index[i + 1])
      if #found >= limit then
        table.sort(found, earlier)
        for j = #found, limit + 1, -1 do found[j] = nil end
        if start > found[limit][1] then done = true break end
      end
      if start + width_of(index[i]) > from then
        local before = #found
        local page_from = found
        found = {}
        gather(SLOT_PREFIX .. index[i], from, to, 1)
        for j = 1, #found do page_from[before + j] = found[j] end
        found = page_from
      end
    end
    offset = offset + 500
  until done or #index < 1000 or offset >= 20000
else
  return redis.error_reply('BADCALL list')
end
table.sort(found, earlier)
for j = #found, limit + 1, -1 do found[j] = nil end
if #found == 0 then return {} end
local ids = {}
for i = 1, #found do ids[i] = found[i][2] end
local bodies, lives, reasons = call('HMGET', BODIES, unpack(ids)), call('HMGET', LIVE, unpack(ids)), call('HMGET', REASONS, unpack(ids))
local rows = {}
for i = 1, #found do
  local at = #rows
  rows[at + 1], rows[at + 2], rows[at + 3], rows[at + 4], rows[at + 5] = ids[i], found[i][1], bodies[i] or '', lives[i] or '', reasons[i] or ''
end
return rows
