-- forecast: how many deadlines fire in each stretch of the future, a page of slots at a time, so that no claim waits long for it.
-- ARGV 8 from ms | 9 stretch ms | 10 stretches (1 to 1500) | 11 the start in ms of the slots to begin with (0 for all)
-- Returns one count for each stretch, then the start of the slots to go on with, or 0; what is overdue counts in the first.
-- O(slots of the page), at most 1004, about 2 us each. Writes nothing.
local refusal = open()
if refusal then return refusal end
local from, stretch, n = whole(ARGV[FIRST], MAX_MS), whole(ARGV[FIRST + 1], MAX_MS), whole(ARGV[FIRST + 2], 1500)
local begin = whole(ARGV[FIRST + 3], MAX_MS)
if not from or not stretch or stretch == 0 or not n or n == 0 or not begin or #ARGV ~= FIRST + 3 then return redis.error_reply('BADCALL forecast') end
local PAGE = 1000
local counts, to, go_on = {}, from + stretch * n, 0
for i = 1, n do counts[i] = 0 end
-- Slots of several levels may have one start; a page ends behind all of them.
local index = call('ZRANGEBYSCORE', SLOTS, format('%.0f', begin), '(' .. format('%.0f', to), 'WITHSCORES', 'LIMIT', 0, PAGE + MAX_LEVEL + 2)
local last_start
for i = 1, #index, 2 do
  local key, start, width = SLOT_PREFIX .. index[i], tonumber(index[i + 1]), width_of(index[i])
  if i > 2 * PAGE and start ~= last_start then
    go_on = start
    break
  end
  last_start = start
  local first = math.max(1, floor((start - from) / stretch) + 1)
  local last = math.max(1, math.min(n, floor((start + width - 1 - from) / stretch) + 1))
  if first == last then
    counts[first] = counts[first] + (start + width <= to and call('ZCARD', key) or call('ZCOUNT', key, '-inf', '(' .. format('%.0f', to)))
  else
    for k = first, last do
      local low = k == 1 and '-inf' or format('%.0f', from + (k - 1) * stretch)
      counts[k] = counts[k] + call('ZCOUNT', key, low, '(' .. format('%.0f', from + k * stretch))
    end
  end
end
counts[n + 1] = go_on
return counts
