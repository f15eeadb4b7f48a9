-- forecast: how many deadlines fire in each stretch of the future, a page of slots at a time, so that no claim waits long for it.
-- ARGV 8 from ms | 9 stretch ms | 10 stretches (1 to 1500) | 11 the start in ms of the slots to begin with (0 for all)
-- Returns one count for each stretch, then the start of the slots to go on with, or 0; what is overdue counts in the first.
-- O(slots of the page), at most 1004, about 1 us each. Writes nothing.
local refusal = open()
if refusal then return refusal end
local from, stretch, n = whole(ARGV[FIRST], MAX_MS), whole(ARGV[FIRST + 1], MAX_MS), whole(ARGV[FIRST + 2], 1500)
local begin = whole(ARGV[FIRST + 3], MAX_MS)
if not from or not stretch or stretch == 0 or not n or n == 0 or not begin or #ARGV ~= FIRST + 3 then return redis.error_reply('BADCALL forecast') end
local PAGE = 1000
local counts, to, go_on = {}, from + stretch * n, 0
for i = 1, n do counts[i] = 0 end
-- Slots of several levels may have one start; a page ends behind all of them. A slot's start is read from its name: to write a score as
-- text and read it again takes as long as all else.
local index = call('ZRANGEBYSCORE', SLOTS, format('%.0f', begin), '(' .. format('%.0f', to), 'LIMIT', 0, PAGE + MAX_LEVEL + 2)
-- Spelt out, because a wheel that is full for days has thousands of slots.
local widths, byte = {}, string.byte
for level = 0, MAX_LEVEL do widths[byte('0') + level] = WIDTH * FACTOR ^ level end
local k, upto = 1, from + stretch -- the stretch that a slot begins in, and its end; slots come in the order of their starts
local last_start
for i = 1, #index do
  local member = index[i]
  local wide = widths[byte(member)]
  local start = wide * tonumber(sub(member, 3))
  if i > PAGE and start ~= last_start then
    go_on = start
    break
  end
  last_start = start
  while start >= upto and k < n do k, upto = k + 1, upto + stretch end
  local stop = start + wide
  if stop <= upto then
    counts[k] = counts[k] + call('ZCARD', SLOT_PREFIX .. member)
  else
    for j = k, math.min(n, floor((stop - 1 - from) / stretch) + 1) do
      local low = j == 1 and '-inf' or format('%.0f', from + (j - 1) * stretch)
      counts[j] = counts[j] + call('ZCOUNT', SLOT_PREFIX .. member, low, '(' .. format('%.0f', from + j * stretch))
    end
  end
end
counts[n + 1] = go_on
return counts
