-- slot: the only code that touches a slot of the wheel. A slot is a zset id -> next_at; the index `slots` holds '<level>:<n>' scored by
-- the slot's start, exactly while the slot's key exists.
--
-- During a hash-slot migration a computed key reads as empty on the node it is moving to. So: an indexed slot that reads as empty, or a
-- header that names a slot without the id, has MOVED; the verb answers TRYAGAIN before it writes. On the node it leaves, a computed key that is
-- not there is refused: one that has moved, a new one, and one that this very call has emptied. So no slot is touched after its last id
-- was taken; whether it will be empty is read before.
local SLOT_PREFIX = sub(META or '', 1, -5) .. 'slot:'
local REACH, FACTOR, MAX_LEVEL = 4096, 64, 3
local TRYAGAIN = 'TRYAGAIN a slot is moving'

local function level_of(next_at)
  local ahead, width, level = next_at - now, WIDTH, 0
  while level < MAX_LEVEL and ahead >= REACH * width do
    width, level = width * FACTOR, level + 1
  end
  return level, width
end

local function member_of(level, next_at)
  local width = WIDTH * FACTOR ^ level
  local number = floor(next_at / width)
  return level .. ':' .. number, number * width -- a slot number has at most 13 digits, so Lua writes it whole
end

local function width_of(member)
  return WIDTH * FACTOR ^ tonumber(sub(member, 1, 1))
end

-- Reads a slot; nil where its key is on another node already.
local function peek(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    if string.find(answer.err, 'non local key', 1, true) then return nil end
    error(answer)
  end
  return answer
end

-- A plan gathers placements by slot, so that each slot is read once and written once.
local function new_plan() return { members = {}, by_member = {} } end

local function plan_place(plan, level, next_at, id)
  local member, start = member_of(level, next_at)
  local slot = plan.by_member[member]
  if slot then
    local n = #slot
    slot[n + 1], slot[n + 2] = next_at, id
  else
    plan.by_member[member] = { next_at, id, start = start, key = SLOT_PREFIX .. member }
    plan.members[#plan.members + 1] = member
  end
end

-- Reads the slots of a plan. Returns true where one has moved: it is in the index, and its key is not there.
local function plan_moved(plan)
  local members, by_member = plan.members, plan.by_member
  if #members == 0 then return false end
  local indexed, known, new, fresh = call('ZMSCORE', SLOTS, unpack(members)), {}, {}, {}
  for i = 1, #members do
    local slot = by_member[members[i]]
    if indexed[i] then
      known[#known + 1] = slot.key
    else
      new[#new + 1] = slot.key
      fresh[#fresh + 1], fresh[#fresh + 2] = slot.start, members[i]
    end
  end
  plan.fresh = fresh
  if #new > 0 and not peek('EXISTS', unpack(new)) then return true end
  return #known > 0 and peek('EXISTS', unpack(known)) ~= #known
end

-- Writes a plan that plan_moved has read: the slots first, then the index.
local function plan_write(plan)
  for i = 1, #plan.members do
    local slot = plan.by_member[plan.members[i]]
    call('ZADD', slot.key, unpack(slot))
  end
  if plan.fresh and #plan.fresh > 0 then call('ZADD', SLOTS, unpack(plan.fresh)) end
end

-- Whether the id is where its header says.
local function in_slot(level, next_at, id)
  local key = SLOT_PREFIX .. member_of(level, next_at)
  return call('ZSCORE', key, id) ~= false
end

-- Takes an id out of its slot; the index entry goes only with the slot that this very call emptied.
local function leave_slot(level, next_at, id)
  local member = member_of(level, next_at)
  local key = SLOT_PREFIX .. member
  local last = call('ZCARD', key) == 1
  if call('ZREM', key, id) == 1 and last then call('ZREM', SLOTS, member) end
end
