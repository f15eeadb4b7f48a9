-- list: one page of deadlines in one state, by time.
-- ARGV 8 state: scheduled|leased|dead | 9 from ms | 10 to ms | 11 after id (skip scores equal to `from` up to this id, '' none) | 12 limit (1 to 500) | 13 most bytes of bodies (1 to 4194304)
-- Returns {whether there are others behind them 0|1, then id, at ms, body, live, reason for each}. A page holds at least one row, where there is
--   any, and ends before the limit where its bodies would have more bytes. O(limit log n). Writes nothing.
local refusal = open()
if refusal then return refusal end
local state, from, to, after, limit = ARGV[FIRST], whole(ARGV[FIRST + 1], MAX_MS), whole(ARGV[FIRST + 2], MAX_MS), ARGV[FIRST + 3], whole(ARGV[FIRST + 4], 500)
local most = whole(ARGV[FIRST + 5], 4194304)
if not from or not to or not after or not limit or limit == 0 or not most or most == 0 or #ARGV ~= FIRST + 5 then
  return redis.error_reply('BADCALL list')
end
limit = limit + 1 -- one more tells whether there are others
local found, sources = {}, 0
-- Whether x comes after y byte by byte, as in a zset: Lua's own comparison follows the server's locale.
local function behind(x, y)
  for i = 1, math.min(#x, #y) do
    local a, b = string.byte(x, i), string.byte(y, i)
    if a ~= b then return a > b end
  end
  return #x > #y
end
-- Adds what is in range and behind the cursor, at most `limit` of a zset of milliseconds.
local function gather(key, low, high, scale)
  local rank, before = call('ZCOUNT', key, '-inf', '(' .. format('%.0f', low)), #found
  local last = rank + (after ~= '' and scale == 1 and call('ZCOUNT', key, format('%.0f', low), format('%.0f', low)) or 0)
  while rank < last do -- those of the cursor's own moment stand in the order of their ids
    local middle = floor((rank + last) / 2)
    if behind(call('ZRANGE', key, middle, middle)[1], after) then last = middle else rank = middle + 1 end
  end
  local enough = rank + 5000
  repeat
    local page = call('ZRANGE', key, rank, rank + limit - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      local score = tonumber(page[i + 1])
      if score > high then enough = 0 break end
      local at = floor(score / scale)
      if at > from or after == '' or scale == 1 or behind(page[i], after) then found[#found + 1] = { at, page[i] } end
    end
    rank = rank + limit
  until #page < 2 * limit or #found - before >= limit or rank >= enough
  if #found > before then sources = sources + scale end
end
local function earlier(x, y) return x[1] < y[1] or (x[1] == y[1] and behind(y[2], x[2])) end
-- One zset of milliseconds is in order already.
local function order()
  if sources > 1 then table.sort(found, earlier) end
  for j = #found, limit + 1, -1 do found[j] = nil end
end
if state == 'leased' then
  gather(LEASES, from * 1000, to * 1000 + 999, 1000)
elseif state == 'dead' then
  gather(DEAD, from, to, 1)
elseif state == 'scheduled' then
  -- Of the slots that begin before that of `from` at the finest level, only the one of each coarser level that holds `from` reaches it.
  local first, offset, done = from - WIDTH, 0, false
  for level = 1, MAX_LEVEL do
    local width = WIDTH * FACTOR ^ level
    local n = floor(from / width)
    local member = format('%d:%.0f', level, n)
    if n * width <= first and call('ZSCORE', SLOTS, member) then gather(SLOT_PREFIX .. member, from, to, 1) end
  end
  repeat
    local index = call('ZRANGEBYSCORE', SLOTS, '(' .. format('%.0f', first), format('%.0f', to), 'WITHSCORES', 'LIMIT', offset, 500)
    for i = 1, #index, 2 do
      local start = tonumber(index[i + 1])
      if #found >= limit then
        order()
        if start > found[limit][1] then done = true break end
      end
      if start + width_of(index[i]) > from then
        gather(SLOT_PREFIX .. index[i], from, to, 1)
      end
    end
    offset = offset + 500
  until done or #index < 1000 or offset >= 20000
else
  return redis.error_reply('BADCALL list')
end
order()
if #found == 0 then return { 0 } end
local more = #found == limit and 1 or 0
if more == 1 then found[limit] = nil end
-- Some bodies at a time: where they are large, those behind the page are not copied.
local bodies, bytes, rows, last = {}, 0, { more }, #found
for first = 1, last, 16 do
  local some = {}
  for i = first, math.min(first + 15, last) do some[#some + 1] = found[i][2] end
  local page = call('HMGET', BODIES, unpack(some))
  for i = 1, #some do
    local body = page[i] or ''
    bytes = bytes + #body
    if bytes > most and #bodies > 0 then rows[1], last = 1, #bodies break end
    bodies[#bodies + 1] = body
  end
  if #bodies == last then break end
end
local ids = {}
for i = 1, last do ids[i] = found[i][2] end
local lives, reasons = call('HMGET', LIVE, unpack(ids)), call('HMGET', REASONS, unpack(ids))
for i = 1, last do
  local at = #rows
  rows[at + 1], rows[at + 2], rows[at + 3], rows[at + 4], rows[at + 5] = ids[i], found[i][1], bodies[i], lives[i] or '', reasons[i] or ''
end
return rows
