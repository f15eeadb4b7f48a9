-- slot: the only code that touches a slot of the wheel. A slot is a zset id -> next_at; the index `slots` holds '<level>:<n>' scored by
-- the slot's start, exactly while the slot's key exists.
--
-- During a hash-slot migration a computed key reads as empty on the node it is moving to. So: an indexed slot that reads as empty, or a
-- header that names a slot without the id, has MOVED; the verb answers TRYAGAIN before it writes. On the node it leaves, a computed key that is
-- not there is refused: one that has moved, a new one, and one that this very call has emptied. So no slot is touched after its last id
-- was taken; whether it will be empty is read before.
local SLOT_PREFIX = sub(META or '', 1, -5) .. 'slot:'
local FACTOR, MAX_LEVEL = 64, 3 -- a level's slots are so many times as wide as those of the level below
local TRYAGAIN = 'TRYAGAIN a slot is moving'

local function width_of(member)
  return WIDTH * FACTOR ^ tonumber(sub(member, 1, 1))
end

local function start_of(member)
  return width_of(member) * tonumber(sub(member, 3))
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
