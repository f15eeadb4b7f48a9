-- grant: takes back what a worker did not use of its tokens, and grants it new ones, from one bucket for the whole fleet.
-- KEYS rate
-- ARGV 2 rate in thousandths of a token a second | 3 burst | 4 worker | 5 tokens it still holds | 6 tokens it gives back unused |
--   7 tokens it wants (0: none) | 8 for how long they are good, us (at most 1 s)
-- Returns {now us, granted, good until us, us to wait before asking again, those of the held ones that are still its own}.
--   O(workers that hold tokens).
--
-- Tokens in the bucket and tokens in hand are never more than the burst together, so whatever happens to those in hand, no window of
-- length w sees more than rate * w + burst of them used. What a worker neither holds nor gives back it has used. Tokens of a worker
-- that is not heard of any more are lost when they are no good any longer: claim refuses them from then on. A repeated call is harmless:
-- it takes back what the first one granted.
-- A new bucket is empty, and fills only when tokens of the one before it are no good any more. A clock that steps back fills nothing
-- until it has caught up; after a step of more than a minute the bucket is new.
if not keys_named('rate') then return redis.error_reply('BADCALL keys') end
local rate, burst, worker = whole(ARGV[FIRST], 1e9), whole(ARGV[FIRST + 1], 1e6), ARGV[FIRST + 2]
local held, back, want = whole(ARGV[FIRST + 3], 1e6), whole(ARGV[FIRST + 4], 1e6), whole(ARGV[FIRST + 5], 1e6)
local good = whole(ARGV[FIRST + 6], 1000000)
if not (rate and burst and worker and held and back and want and good) or rate == 0 or burst == 0 or worker == '' or good == 0
  or #ARGV ~= FIRST + 6 then
  return redis.error_reply('BADCALL grant')
end
local RATE, TOKEN, NEW = KEYS[1], 1e9, 60000000 -- a token is 1e9 parts: thousandths a second times microseconds
local fields, stored = call('HGETALL', RATE), {}
for i = 1, #fields, 2 do stored[fields[i]] = fields[i + 1] end
local now = clock(stored.clock)
if not now then return redis.error_reply('BADCALL fixed now') end

local level, at = tonumber(stored.level), tonumber(stored.at)
local fresh = not level or not at or at - now > NEW
if fresh then level, at = 0, now + good end
-- What is in hand: this worker's, others', and what was lost since.
local mine, own, others, lost, last_loss, forget = 'w:' .. worker, 0, 0, 0, 0, {}
local holders = 1
for field, value in pairs(stored) do
  if string.sub(field, 1, 2) == 'w:' then
    local count, until_us = string.match(value, '^(%d+) (%d+)$')
    count, until_us = tonumber(count), tonumber(until_us)
    local over = fresh or not count or now > until_us
    if over and field ~= mine then forget[#forget + 1] = field end -- its own is written below
    if not over and field == mine then
      own = count
    elseif not over then
      others, holders = others + count, holders + 1
    elseif not fresh and count then
      lost, last_loss = lost + count, math.max(last_loss, until_us)
    end
  end
end

local function fill(to, in_hand)
  local room = (burst - in_hand) * TOKEN - level
  if room < 0 then level = math.max(0, level + room) end
  if to > at then
    if room > 0 then level = level + math.min(room, floor(math.min(to - at, burst * TOKEN / rate)) * rate) end
    at = to
  end
end
-- While they were in hand the lost ones took their room.
if lost > 0 then fill(math.min(last_loss, now), own + others + lost) end
fill(now, own + others)

held = math.min(held, own)
level = level + math.min(back, own - held) * TOKEN
-- A few at once make better batches than each one as it comes: those of 20 ms, at most a quarter of the burst.
local batch = math.max(1, math.min(want, floor(rate / 50000), floor(burst / 4)))
local share = math.max(batch, math.ceil(level / TOKEN / holders))
local granted, wait = 0, 0
if want > 0 then
  if level >= batch * TOKEN then
    granted = math.min(want, floor(level / TOKEN), share)
    level = level - granted * TOKEN
  else
    wait = math.ceil((batch * TOKEN - level) / rate) + math.max(0, at - now)
  end
end
local until_us = now + good
call('HSET', RATE, 'level', format('%.0f', level), 'at', format('%.0f', at), 'rate', ARGV[FIRST], 'burst', ARGV[FIRST + 1])
if held + granted > 0 then
  call('HSET', RATE, mine, format('%d %.0f', held + granted, until_us))
elseif stored[mine] then
  forget[#forget + 1] = mine
end
if #forget > 0 then
  for first = 1, #forget, 500 do call('HDEL', RATE, unpack(forget, first, math.min(first + 499, #forget))) end
end
call('PEXPIRE', RATE, 3600000) -- a wheel that has no rate any more forgets it
return { now, granted, until_us, wait, held }
