-- settle: writes the verdicts of one batch of leases. Only the holder of the exact fence changes anything.
-- ARGV 8 count (1 to 500), then groups of one fence each: fence us | members | then for each member: id | verdict, which is a letter and data
--   an end (closed or skipped): the ended record without its first nine bytes (ended_at is Redis's), and no letter before it
--   r retry: attempt counted; ms to wait, then ' ' and why it failed, of which 256 bytes are kept while the deadline lives
--   w wait: ms to wait, not counted
--   u until: the table says later; moment ms          b back: given back untouched, due as before
--   d dead: the reason                                s stage: a reminder is over; '<next stage> <its
--     moment ms>', then ' reminded' or ' reminder_failed' where others are told. A reminder's r, w or u that would reach the next stage
--     ends it as failed instead.
--   An id that stands twice is settled by its first word.
-- Returns one character for each: 1 done (also a repeat that had closed it), 0 stale, 2 ended as cancelled meanwhile.
-- O(count log slot size).
local refusal = open()
if refusal then return refusal end
local n = whole(ARGV[FIRST], 500)
if not n or n == 0 then return redis.error_reply('BADCALL settle') end

local ids, verdicts, fence_of, fences, asked_of, n_read, at = {}, {}, {}, {}, {}, 0, FIRST + 1
while n_read < n do
  local fence, members = ARGV[at], whole(ARGV[at + 1], n - n_read)
  if not whole(fence, 9e15) or not members or members == 0 or #ARGV <= at + 2 * members then return redis.error_reply('BADCALL settle fence') end
  local asked = asked_of[fence]
  if not asked then
    asked, fences[#fences + 1] = {}, fence
    asked_of[fence] = asked
  end
  at = at + 2
  for _ = 1, members do
    local id, verdict = ARGV[at], ARGV[at + 1]
    local what = byte(verdict)
    if what == CLOSED or what == SKIPPED then
      if #verdict ~= 28 then return redis.error_reply('BADCALL settle end') end
    elseif not seldom().fits(what, verdict) then
      return redis.error_reply('BADCALL settle verdict')
    end
    n_read, at, asked[#asked + 1] = n_read + 1, at + 2, id
    ids[n_read], verdicts[n_read], fence_of[n_read] = id, verdict, fence
  end
end
if #ARGV ~= at - 1 then return redis.error_reply('BADCALL settle count') end
local any_live = touch()

-- Which of the ids are leased at their fence. All of a claim share one fence, so that a batch is a few ranges of `leases`; Redis would
-- print the score of each id, which costs more than the look. A claim that was torn into many small settles is asked for id by id.
local current = {} -- id -> the fence it is leased at, where that is one of this call
local held_at = {} -- fence -> how many there are in all, where all were read
for k = 1, #fences do
  local fence = fences[k]
  local asked = asked_of[fence]
  local most = 2 * #asked + 8
  local held = call('ZRANGEBYSCORE', LEASES, fence, fence, 'LIMIT', 0, most)
  if #held < most then
    held_at[fence] = #held
    for i = 1, #held do current[held[i]] = fence end
  else
    local scores = call('ZMSCORE', LEASES, unpack(asked))
    for i = 1, #asked do
      if tonumber(scores[i] or -1) == tonumber(fence) then current[asked[i]] = fence end
    end
  end
end
local lives = any_live > 0 and call('HMGET', LIVE, unpack(ids)) or nil

local settled, marks, forget_lives = {}, {}, {}
local leave = {} -- fence -> the ids that leave its leases
local ends, ended_count, remember, records = { {}, {} }, { 0, 0 }, {}, 0 -- ids that end as closed and as skipped, and what is remembered of them
local moving, others, left = {}, {}, 0 -- indices of those that go back to the wheel, and of those that are not ours any more
for i = 1, n do
  local id, fence, verdict = ids[i], fence_of[i], verdicts[i]
  local outcome = byte(verdict)
  if current[id] == fence and not settled[id] then
    settled[id], marks[i], left = true, '1', left + 1
    local gone = leave[fence]
    if not gone then
      gone = {}
      leave[fence] = gone
    end
    gone[#gone + 1] = id
    if outcome <= SKIPPED then
      local count_so_far = ended_count[outcome] + 1
      ended_count[outcome], ends[outcome][count_so_far] = count_so_far, id
      if lives and lives[i] then forget_lives[#forget_lives + 1] = id end
      if KEEP[outcome] > 0 then
        remember[records + 1], remember[records + 2] = id, ended(verdict)
        records = records + 2
      end
    else
      moving[#moving + 1] = i
    end
  else
    marks[i] = '0'
    if outcome <= SKIPPED then others[#others + 1] = i end
  end
end

-- A repeat whose first answer was lost finds its own fence among the ended.
if #others > 0 then
  local asked = {}
  for k = 1, #others do asked[k] = ids[others[k]] end
  local found = call('HMGET', ENDED, unpack(asked))
  for k = 1, #others do
    if found[k] and sub(found[k], 10) == verdicts[others[k]] then marks[others[k]] = '1' end
  end
end

local write_back -- writes those that go back to the wheel, or are buried
if #moving > 0 then
  write_back = seldom().back(moving, ids, verdicts, fence_of, lives, marks)
  if not write_back then return redis.error_reply(seldom().TRYAGAIN) end
end
if left == 0 then return table.concat(marks) end

if write_back then write_back() end
if #remember > 0 then call('HSET', ENDED, unpack(remember)) end
local told = {}
for outcome = CLOSED, SKIPPED do
  local same = ends[outcome]
  if #same > 0 then
    told[#told + 1], told[#told + 2] = OUTCOMES[outcome], table.concat(same, '\n')
    call('HDEL', BODIES, unpack(same))
    count(OUTCOMES[outcome], #same)
  end
end
tell(told)
if #forget_lives > 0 then
  call('HDEL', LIVE, unpack(forget_lives))
  call('HDEL', REASONS, unpack(forget_lives))
end
for k = 1, #fences do
  local fence, gone = fences[k], leave[fences[k]]
  -- Where all that are leased at a fence leave, they leave as a range: no look for each.
  if gone and held_at[fence] == #gone then
    call('ZREMRANGEBYSCORE', LEASES, fence, fence)
  elseif gone then
    call('ZREM', LEASES, unpack(gone))
  end
end
return table.concat(marks)
