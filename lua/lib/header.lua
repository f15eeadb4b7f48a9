-- header: the fixed front of a body (format 1, 33 bytes, big endian):
--   format 1 | cause 1 | level 1 | stage 1 | generation us 8 | due_at ms 8 | next_at ms 8 | holds 1 | held ms 4
-- The MessagePack part behind it is the caller's and is never rewritten. src/wheel/body.rs holds the same layout.
local HEADER, HEADER_BYTES, MOMENTS_BYTES, FORMAT = '>BBBBI8I8I8BI4', 33, 21, 1 -- MOMENTS: from due_at on
local pack, unpack_struct, sub, byte = struct.pack, struct.unpack, string.sub, string.byte

-- cause, level, stage, generation, due_at, next_at, holds, held ms; nil where it is not a header of ours
local function header_of(body)
  if not body or #body < HEADER_BYTES then return nil end
  local version, cause, level, stage, generation, due_at, next_at, holds, held = unpack_struct(HEADER, body)
  if version ~= FORMAT or level > 3 then return nil end
  return cause, level, stage, generation, due_at, next_at, holds, held
end

local function header(cause, level, stage, generation, due_at, next_at, holds, held)
  return pack(HEADER, FORMAT, cause, level, stage, generation, due_at, next_at, holds, held)
end

-- The stage where this is a header of ours, else nil, without reading it all: a claim asks this of every body it hands out.
local function ours(body)
  if not body or #body < HEADER_BYTES then return nil end
  local version, _, level, stage = byte(body, 1, 4)
  return version == FORMAT and level <= 3 and stage or nil
end
