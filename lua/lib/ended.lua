-- ended: what an end leaves behind (format 1, 37 bytes, big endian), and the event that tells of it:
--   format 1 | ended_at ms 8 | outcome 1 | cause 1 | attempt 2 | generation us 8 | due_at ms 8 | fence us 8
-- Outcomes: 1 closed, 2 skipped, 3 cancelled. src/wheel/body.rs holds the same layout.
local CLOSED, SKIPPED, CANCELLED = 1, 2, 3
local OUTCOMES = { 'closed', 'skipped', 'cancelled' }
local KEEP = { tonumber(ARGV[5]), tonumber(ARGV[5]), tonumber(ARGV[6]) } -- open() has checked them before they are used

local function ended_tail(outcome, cause, attempt, generation, due_at, fence)
  return pack('>BBI2I8I8I8', outcome, cause, attempt, generation, due_at, fence)
end

local ended_front -- format and ended_at: the same for all of a call
local function ended(tail)
  ended_front = ended_front or pack('>BI8', 1, now)
  return ended_front .. tail
end

-- The outcome of a record that is still remembered; nil once its time is over, pruned or not.
local function outcome_of(record)
  if not record or #record ~= 37 then return nil end
  local _, ended_at, outcome = unpack_struct('>BI8B', record)
  if not KEEP[outcome] or ended_at + KEEP[outcome] <= now then return nil end
  return outcome
end

-- One stream entry for the whole call: field = what happened, value = the ids, one a line.
local function tell(fields)
  local keep = tonumber(ARGV[7])
  if #fields == 0 or keep == 0 then return end
  call('XADD', EVENTS, 'MINID', '~', format('%.0f', math.max(0, now - keep)), '*', unpack(fields))
end

local function tell_all(what, ids)
  if #ids > 0 then tell({ what, table.concat(ids, '\n') }) end
end
