-- forecast: how many deadlines fire in each stretch of the future.
-- ARGV 8 from ms | 9 stretch ms | 10 stretches (1 to 1500)
-- Returns one count for each stretch; what is overdue counts in the first. O(slots in range). Writes nothing.
local refusal = open()
if refusal then return refusal end
local from, stretch, n = whole(ARGV[FIRST], MAX_MS), whole(ARGV[FIRST + 1], MAX_MS), whole(ARGV[FIRST + 2], 1500)
if not from or not stretch or stretch == 0 or not n or n == 0 or #ARGV ~= FIRST + 2 then return redis.error_reply('BADCALL forecast') end
local counts, to, offset = {}, from + stretch * n, 0
for i = 1, n do counts[i] = 0 end
repeat
  local index = call('ZRANGEBYSCORE', SLOTS, '-inf', '(' .. format('%.0f', to), 'WITHSCORES', 'LIMIT', offset, 500)
  for i = 1, #index, 2 do
    local key, start, width = SLOT_PREFIX .. index[i], tonumber(index[i + 1]), width_of(index[i])
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
  offset = offset + 500
until #index < 1000 or offset >= 20000
return counts
