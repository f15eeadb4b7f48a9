-- breaker: counts what a worker's hook has answered, for the whole fleet, and trips the wheel where the counts leave their band.
-- KEYS breaker, state, audit
-- ARGV 2 closed | 3 skipped | 4 rejected or gone before any other verdict | 5 whether there was another 0|1 | 6 the same after the last other
--   7 closes a minute at most (0: any) | 8 closed of judged at most, thousandths (0: any) | 9 judged orders below which that says nothing |
--   10 rejected or gone in a row at most (0: any) | 11 who reports, for people
-- Returns {now us, 0 not tripped, 1 tripped, 2 tripped by this call, trip: '<at us>\n<who>\n<why>' or '', run so far}. O(1): 31 buckets.
--
-- A minute is 30 to 31 buckets of two seconds: 60 to 62 s. What comes in while the wheel is tripped is counted and trips nothing.
if not keys_named('breaker', 'state', 'audit') then return redis.error_reply('BADCALL keys') end
local n, MOST = {}, 1e9
for i = 0, 8 do n[i] = whole(ARGV[FIRST + i], MOST) end
local who = ARGV[FIRST + 9]
if not (n[0] and n[1] and n[2] and n[3] and n[3] <= 1 and n[4] and n[5] and n[6] and n[7] and n[8]) or not who or #ARGV ~= FIRST + 9 then
  return redis.error_reply('BADCALL breaker')
end
local closed, skipped, lead, other, tail = n[0], n[1], n[2], n[3], n[4]
local most_closed, most_ratio, least_judged, most_run = n[5], n[6], n[7], n[8]
local COUNTS, STATE, AUDIT, WIDTH, BUCKETS = KEYS[1], KEYS[2], KEYS[3], 2000000, 31
local fields, stored = call('HGETALL', COUNTS), {}
for i = 1, #fields, 2 do stored[fields[i]] = fields[i + 1] end
local trip = call('HGET', STATE, 'tripped')
call('XLEN', AUDIT)
local now = clock(stored.clock)
if not now then return redis.error_reply('BADCALL fixed now') end

-- Buckets of another minute, before or (after a step of the clock) ahead, are over.
local bucket, all_closed, judged, over = floor(now / WIDTH), closed, closed + skipped, {}
for field, value in pairs(stored) do
  local kind, number = string.match(field, '^([cs]):(%d+)$')
  if kind then
    if math.abs(bucket - tonumber(number)) >= BUCKETS then
      over[#over + 1] = field
    else
      judged = judged + tonumber(value)
      if kind == 'c' then all_closed = all_closed + tonumber(value) end
    end
  end
end
local run = tonumber(stored.run or 0) + lead
local longest = run
if other == 1 then
  run = tail
  longest = math.max(longest, tail)
end

if closed > 0 then call('HINCRBY', COUNTS, format('c:%.0f', bucket), closed) end
if skipped > 0 then call('HINCRBY', COUNTS, format('s:%.0f', bucket), skipped) end
call('HSET', COUNTS, 'run', format('%.0f', run))
for i = 1, #over do call('HDEL', COUNTS, over[i]) end
call('PEXPIRE', COUNTS, 3600000)
if trip then return { now, 1, trip, run } end

local why
if most_run > 0 and longest >= most_run then
  why = format('%d orders in a row were rejected or gone, the band is below %d', longest, most_run)
elseif most_closed > 0 and all_closed > most_closed then
  why = format('%d orders were closed within a minute, the band is up to %d', all_closed, most_closed)
elseif most_ratio > 0 and judged >= least_judged and all_closed * 1000 > judged * most_ratio then
  why = format('%d of %d due orders were closed within a minute, the band is up to %.1f %%', all_closed, judged, most_ratio / 10)
end
if not why then return { now, 0, '', run } end
trip = format('%.0f', now) .. '\n' .. who .. '\n' .. why
call('HSET', STATE, 'tripped', trip)
call('XADD', AUDIT, 'MAXLEN', '~', 100000, '*', 'action', 'tripped', 'by', who, 'reason', why)
return { now, 2, trip, run }
