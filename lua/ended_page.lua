-- ended_page: one page of what is remembered of ended deadlines, in no order.
-- ARGV 8 cursor ('0' to begin) | 9 about how many
-- Returns {next cursor, id, record, ...}. O(page). Writes nothing.
local refusal = open()
if refusal then return refusal end
local cursor, about = ARGV[FIRST], whole(ARGV[FIRST + 1], 500)
if not cursor or not string.find(cursor, '^%d+$') or not about or about == 0 or #ARGV ~= FIRST + 1 then return redis.error_reply('BADCALL ended_page') end
local page = call('HSCAN', ENDED, cursor, 'COUNT', about)
local answer = { page[1] }
for i = 1, #page[2], 2 do
  if outcome_of(page[2][i + 1]) then
    answer[#answer + 1] = page[2][i]
    answer[#answer + 1] = page[2][i + 1]
  end
end
return answer
