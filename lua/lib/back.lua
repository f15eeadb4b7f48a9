-- back: the verdicts of a settle that end nothing: a deadline goes back to the wheel, or is buried.
local WAIT, RETRY, UNTIL, BACK, BURY, STAGE = byte('wrubds', 1, 6)
local TOLD = { [''] = true, reminded = true, reminder_failed = true }
local function fits(what, verdict)
  if what == RETRY then return whole(string.match(verdict, '^r(%d+)$') or string.match(verdict, '^r(%d+) '), MAX_MS) end
  if what == WAIT or what == UNTIL then return whole(sub(verdict, 2), MAX_MS) end
  if what == STAGE then
    local stage, moment, word = string.match(verdict, '^s(%d+) (%d+) ?(.*)$')
    return whole(stage, 255) and whole(moment, MAX_MS) and TOLD[word]
  end
  return what == BURY or (what == BACK and #verdict == 1)
end

-- What is kept of an id's failed attempts: a line each, the latest first, behind the reason of its death, which is empty while it lives
-- (src/wheel/reasons.rs reads it).
local FAILURES = 5
local function failures(past, attempt, why)
  local lines = { '', format('%.0f %d %s', now, attempt, string.gsub(sub(why, 1, 256), BREAK, ' ')) }
  for line in string.gmatch(string.match(past or '', BREAK .. '.*') or '', '[^' .. BREAK .. ']+') do
    if #lines > FAILURES then break end
    lines[#lines + 1] = line
  end
  return table.concat(lines, BREAK)
end

-- Reads what is needed for the verdicts at these indices, all leased at their fence. Returns what writes them, to be called once all is
-- read; nil where a slot is moving.
local function back(moving, ids, verdicts, fence_of, lives, marks)
  local plan, writes, retried = new_plan(), {}, 0
  local reminded = {} -- what others are told of reminders: word -> { ids, stages }
  local asked = {}
  for k = 1, #moving do asked[k] = ids[moving[k]] end
  local bodies = call('HMGET', BODIES, unpack(asked))
  for k = 1, #moving do
    local i = moving[k]
    local id, body = ids[i], bodies[k]
    local what, data = byte(verdicts[i]), sub(verdicts[i], 2)
    local cause, level, stage, generation, due_at, next_at, holds, held = header_of(body)
    local attempts, losses, flags, note = live_of(lives and lives[i])
    local was = lives and lives[i]
    if not cause then
      writes[k] = function() set_aside(id, body, now) end
    elseif string.find(flags, 'c', 1, true) then
      marks[i] = '2'
      local fence = tonumber(fence_of[i])
      writes[k] = function() end_cancelled(id, cause, attempts + 1, generation, due_at, fence) end
    elseif what == BURY then
      local past = attempts > 0 and call('HGET', REASONS, id)
      writes[k] = function()
        call('HSET', LIVE, id, live(attempts + 1, 0, flags, note))
        bury(id, sub(data, 1, 4096), past)
      end
    elseif what == BACK then
      plan_place(plan, level, next_at, id)
      writes[k] = function() live_write(id, live(attempts, losses, flags, note), was) end
    else
      local at_ms, word, reason
      local failed = attempts > 0 -- only then is anything kept of failures
      local past = failed and what == RETRY and call('HGET', REASONS, id)
      local was_stage = stage
      if what == STAGE then
        local to, moment, said = string.match(data, '^(%d+) (%d+) ?(.*)$')
        stage, at_ms, attempts, word = tonumber(to), tonumber(moment), 0, said
      elseif what == UNTIL then
        at_ms = math.max(tonumber(data), now)
      elseif what == RETRY then
        local wait, why = string.match(data, '^(%d+) ?(.*)$')
        at_ms, reason = now + tonumber(wait), why
        attempts, retried = attempts + 1, retried + 1
      else
        at_ms = now + tonumber(data)
      end
      if stage > 0 and what ~= STAGE then
        local ends = moment_of(body, HEADER_BYTES, stage - 1, due_at)
        if at_ms >= ends then stage, at_ms, attempts, word = stage - 1, math.max(0, ends), 0, 'reminder_failed' end
      end
      if word and word ~= '' then
        local said = reminded[word] or { {}, {} }
        reminded[word] = said
        said[1][#said[1] + 1], said[2][#said[2] + 1] = id, was_stage
      end
      at_ms = math.min(at_ms, MAX_MS)
      level = level_of(at_ms)
      plan_place(plan, level, at_ms, id)
      local front = header(cause, level, stage, generation, due_at, at_ms, holds, held)
      writes[k] = function()
        call('HSET', BODIES, id, front .. sub(body, HEADER_BYTES + 1))
        live_write(id, live(attempts, 0, flags, note), was)
        if attempts > 0 and reason then
          call('HSET', REASONS, id, failures(past, attempts, reason))
        elseif failed and attempts == 0 then
          call('HDEL', REASONS, id)
        end
      end
    end
  end
  if plan_moved(plan) then return nil end
  return function()
    plan_write(plan)
    for k = 1, #writes do writes[k]() end
    for word, said in pairs(reminded) do tell_stages(word, said[1], said[2]) end
    count('retried', retried)
  end
end
