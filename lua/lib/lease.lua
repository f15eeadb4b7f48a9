-- lease: `leases` is a zset id -> lease end in us, and that end is the fence. This file ends leases that ran out.

local BREAK = '\30' -- between the reason of a death and what is kept of the failures before it

-- Moves an id to the dead; the caller removes it from where it was. `past` is what stands in `reasons` of it, if anything.
local function bury(id, reason, past)
  call('ZADD', DEAD, now, id)
  call('HSET', REASONS, id, string.gsub(reason, BREAK, ' ') .. (string.match(past or '', BREAK .. '.*') or ''))
  count('buried', 1)
  tell({ 'dead', id })
end

-- Sets aside an id whose stored deadline cannot be used: a header of another format, or no body at all. What has ended needs no grave:
-- only its place was left. The caller removes it from where it was.
local function set_aside(id, body, moment)
  if body then return bury(id, 'unreadable header') end
  if outcome_of(call('HGET', ENDED, id)) then return end
  bury(id, 'body missing')
  call('HSET', BODIES, id, header(3, 0, 0, now_us, moment, moment, 0, 0))
end

-- Ends an id that was cancelled while leased; the caller removes it from the leases.
local function end_cancelled(id, cause, attempt, generation, due_at, fence)
  if KEEP[CANCELLED] > 0 then
    call('HSET', ENDED, id, ended(ended_tail(CANCELLED, cause, attempt, generation, due_at, fence)))
  end
  tell({ 'cancelled', id })
  call('HDEL', BODIES, id)
  call('HDEL', LIVE, id)
  call('HDEL', REASONS, id)
  count('cancelled', 1)
end

-- Ends these leases, given as id and lease end in turn; nil and nothing written where one of their slots is moving.
local function reap_these(expired, poison, any_live, lease_us)
  local ids = {}
  for i = 1, #expired, 2 do ids[#ids + 1] = expired[i] end
  local bodies = call('HMGET', BODIES, unpack(ids))
  local lives = any_live > 0 and call('HMGET', LIVE, unpack(ids)) or {}
  local plan, writes, gone = new_plan(), {}, {}
  for i = 1, #ids do
    local id, body = ids[i], bodies[i]
    local attempts, losses, flags, note = live_of(lives[i])
    local cause, level, stage, generation, due_at, next_at = header_of(body)
    losses = losses + 1
    gone[i] = id
    if not cause then
      writes[i] = function() set_aside(id, body, now) end
    elseif string.find(flags, 'c', 1, true) then
      local fence = tonumber(expired[2 * i])
      writes[i] = function() end_cancelled(id, cause, attempts + 1, generation, due_at, fence) end
    elseif stage > 0 then
      -- A reminder is tried anew once, if there is time; it is neither a suspect nor poison, because the close must not wait for it.
      local turn = stage_at(body, stage, due_at, now)
      local left = moment_of(body, HEADER_BYTES, stage - 1, due_at) * 1000 - now_us
      if turn == stage and (losses >= SUSPECT or left < lease_us / 8) then turn = stage - 1 end
      if turn < stage then
        local new, moment = at_stage(body, turn)
        plan_place(plan, level, moment, id)
        writes[i] = function()
          call('HSET', BODIES, id, new)
          call('HDEL', LIVE, id)
          call('HDEL', REASONS, id)
          tell_stages('reminder_failed', { id }, { stage })
        end
      else
        plan_place(plan, level, next_at, id)
        writes[i] = function() call('HSET', LIVE, id, live(attempts, losses, flags, note)) end
      end
    elseif losses - SUSPECT >= poison then
      local past = attempts > 0 and call('HGET', REASONS, id)
      writes[i] = function()
        call('HSET', LIVE, id, live(attempts, losses, flags, note))
        bury(id, format('lost its lease %d times, alone', losses - SUSPECT), past)
      end
    else
      plan_place(plan, level, next_at, id)
      writes[i] = function() call('HSET', LIVE, id, live(attempts, losses, flags, note)) end
    end
  end
  if plan_moved(plan) then return nil end
  plan_write(plan)
  for i = 1, #ids do writes[i]() end
  call('ZREM', LEASES, unpack(gone))
  count('lost', #ids)
  return #ids
end

-- Puts these expired leases back to the slot their header names: due now, not a failed attempt. Cancelled ones end, poison is buried: the
-- first loss may have been a neighbour's fault, later ones were suffered alone. At most `limit`; returns how many.
local function reap(expired, limit, poison, any_live, lease_us)
  local reaped = reap_these(expired, poison, any_live, lease_us)
  if reaped then return reaped end
  -- What waits for its slot must not keep the others waiting, nor stand in front of them.
  reaped = 0
  expired = call('ZRANGEBYSCORE', LEASES, '-inf', now_us, 'WITHSCORES', 'LIMIT', 0, 500)
  for i = 1, #expired, 2 do
    if reaped == limit then break end
    reaped = reaped + (reap_these({ expired[i], expired[i + 1] }, poison, any_live, lease_us) or 0)
  end
  return reaped
end
