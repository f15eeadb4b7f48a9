-- stage: what fires next of a deadline: 0 is the close, n the reminder that is n stages before it. A reminder fires at due_at less its
-- offset. The offsets stand at the front of the MessagePack part, nearest first, where they are read without decoding it:
--   map 1 | key "r" 2 | bin 8 with its length 2 | 4 bytes each, ms, big endian
-- src/wheel/body.rs writes them first, and only where there are any. `at` is how far into the text the MessagePack part begins.
local R, BIN8 = 114, 196

local function reminders_of(text, at)
  local key, kind, length = byte(text, at + 3, at + 5)
  if key ~= R or kind ~= BIN8 or not length or #text < at + 5 + length then return 0 end
  return floor(length / 4)
end

-- When a stage fires; a reminder that is not there counts as the close.
local function moment_of(text, at, stage, due_at)
  if stage == 0 or stage > reminders_of(text, at) then return due_at end
  return due_at - (unpack_struct('>I4', text, at + 2 + 4 * stage))
end

-- The first stage from `highest` down that is still to come, and its moment: what has passed is left out.
local function coming_stage(text, at, highest, due_at)
  for stage = math.min(highest, reminders_of(text, at)), 1, -1 do
    local moment = moment_of(text, at, stage, due_at)
    if moment > now then return stage, moment end
  end
  return 0, due_at
end

-- What is to fire at `moment` of a stored deadline whose turn it was at `stage`: a reminder ends where the next stage begins.
local function stage_at(body, stage, due_at, moment)
  while stage > 0 and moment_of(body, HEADER_BYTES, stage - 1, due_at) <= moment do stage = stage - 1 end
  return stage
end

-- The body with another stage, and the moment that this stage fires at.
local function at_stage(body, stage)
  local cause, level, _, generation, due_at, _, holds, held = header_of(body)
  local moment = math.max(0, moment_of(body, HEADER_BYTES, stage, due_at))
  return header(cause, level, stage, generation, due_at, moment, holds, held) .. sub(body, HEADER_BYTES + 1), moment
end

-- A reminder as it is leased: the body with the stage whose turn it is, that stage, and the lease's end, which comes before the next stage
-- does, so that neither a slow hook nor a dead worker keeps that one waiting. An end of its own grows with now, so that no two leases of
-- one reminder end alike, and is odd, so that a repeated nonce does not find it.
local function lease_reminder(body, stage, fence)
  local _, _, _, _, due_at = header_of(body)
  local turn = stage_at(body, stage, due_at, now)
  if turn < stage then body = at_stage(body, turn) end
  if turn == 0 then return body, turn, fence end
  local next_us = moment_of(body, HEADER_BYTES, turn - 1, due_at) * 1000
  local own = next_us - floor((next_us - now_us) / 8)
  if own >= fence then return body, turn, fence end
  return body, turn, own - 1 + own % 2
end

-- One event for reminders: ids and, beside them, their stages.
local function tell_stages(what, ids, stages)
  if #ids > 0 then
    tell({ what, table.concat(ids, '\n'), what .. '.stage', table.concat(stages, '\n') })
    count(what, #ids)
  end
end
