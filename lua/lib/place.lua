-- place: where an id goes in the wheel, and how it gets there and away.
local REACH = 4096 -- slots of a level that are looked ahead

local function level_of(next_at)
  local ahead, width, level = next_at - now, WIDTH, 0
  while level < MAX_LEVEL and ahead >= REACH * width do
    width, level = width * FACTOR, level + 1
  end
  return level, width
end

-- Slots of one call that were named before: printing a number costs more than looking it up.
local named = { [0] = {}, {}, {}, {} }
-- How many digits a moment's text loses to become its slot's number at level 0, where the width is a power of ten.
local CUT = string.match(tostring(ARGV[3]), '^10*$') and #ARGV[3] or nil

-- The slot's member; `text` is next_at in digits, where the caller has it: cutting it is cheaper than printing a number.
local function member_of(level, next_at, text)
  if level == 0 and CUT and text and #text >= CUT and byte(text) ~= 48 then return '0:' .. sub(text, 1, -CUT) end
  local number = floor(next_at / (WIDTH * FACTOR ^ level))
  local member = named[level][number]
  if not member then
    member = level .. ':' .. number -- a slot number has at most 13 digits, so Lua writes it whole
    named[level][number] = member
  end
  return member
end

-- A plan gathers placements by slot, so that each slot is read once and written once: for place n the slot's member and key, and
-- the first score and id that go there; `more` holds the others. Most slots of a batch get one, and a table each would cost more than they.
local function new_plan()
  return { n = 0, place_of = {}, members = {}, keys = {}, scores = {}, ids = {}, more = {} }
end

-- `score` is next_at as text, where the caller has it: Redis takes text as it is, and would print a number first.
local function plan_place(plan, level, next_at, id, score)
  local member = member_of(level, next_at, score)
  local place = plan.place_of[member]
  if not place then
    place = plan.n + 1
    plan.n, plan.place_of[member] = place, place
    plan.members[place], plan.keys[place] = member, SLOT_PREFIX .. member
    plan.scores[place], plan.ids[place] = score or next_at, id
    return
  end
  local more = plan.more[place]
  if not more then
    more = { plan.scores[place], plan.ids[place] }
    plan.more[place] = more
  end
  local n = #more
  more[n + 1], more[n + 2] = score or next_at, id
end

-- Reads the slots of a plan. Returns true where one has moved: it is in the index, and its key is not there.
local function plan_moved(plan)
  if plan.n == 0 then return false end
  local indexed = call('ZMSCORE', SLOTS, unpack(plan.members))
  local known, new, known_count, new_count, fresh = {}, {}, 0, 0, {}
  for place = 1, plan.n do
    if indexed[place] then
      known_count = known_count + 1
      known[known_count] = plan.keys[place]
    else
      new_count = new_count + 1
      new[new_count] = plan.keys[place]
      fresh[2 * new_count - 1], fresh[2 * new_count] = start_of(plan.members[place]), plan.members[place]
    end
  end
  plan.fresh = fresh
  if new_count > 0 and not peek('EXISTS', unpack(new)) then return true end
  return known_count > 0 and peek('EXISTS', unpack(known)) ~= known_count
end

-- Writes a plan that plan_moved has read: the slots first, then the index.
local function plan_write(plan)
  for place = 1, plan.n do
    local more = plan.more[place]
    if more then
      call('ZADD', plan.keys[place], unpack(more))
    else
      call('ZADD', plan.keys[place], plan.scores[place], plan.ids[place])
    end
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
