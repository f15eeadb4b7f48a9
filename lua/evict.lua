-- evict: forgets ids that another shard has adopted (reshard). Only unleased ones.
-- ARGV 8 count (1 to 100), then for each: id | body as it was adopted, or the ended record
-- Returns one character for each: 1 gone, 0 changed meanwhile and kept. O(count log slot size).
local refusal = open()
if refusal then return refusal end
local n = whole(ARGV[FIRST], 100)
if not n or n == 0 or #ARGV ~= FIRST + 2 * n then return redis.error_reply('BADCALL evict') end
touch()
local marks, evicted = {}, 0
for i = 1, n do
  local id, was = ARGV[FIRST - 1 + 2 * i], ARGV[FIRST + 2 * i]
  marks[i] = '0'
  local cause, level, _, _, _, next_at = header_of(was)
  local dead = call('ZSCORE', DEAD, id)
  local placed = dead or (cause and in_slot(level, next_at, id)) -- else its slot is moving, or a scan must mend it first
  if call('HGET', BODIES, id) == was and placed and not call('ZSCORE', LEASES, id) then
    if dead then call('ZREM', DEAD, id) else leave_slot(level, next_at, id) end
    call('HDEL', BODIES, id)
    call('HDEL', LIVE, id)
    call('HDEL', REASONS, id)
    marks[i], evicted = '1', evicted + 1
  elseif call('HGET', ENDED, id) == was then
    call('HDEL', ENDED, id)
    marks[i] = '1'
  end
end
count('evicted', evicted)
return table.concat(marks)
