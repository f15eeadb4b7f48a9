-- live: '<attempts> <losses> <flags>[\n<note>]' for ids that were retried, lost, flagged or are closed by hand; absent means all zero.
-- Flags: c cancelled while leased. The note is the caller's bytes.
local SUSPECT = 2 -- leases lost, from which on an id is leased alone and its losses are its own

local function live_of(text)
  if not text then return 0, 0, '', '' end
  local attempts, losses, flags, note = string.match(text, '^(%d+) (%d+) (%a*)\n?(.*)$')
  return tonumber(attempts) or 0, tonumber(losses) or 0, flags or '', note or ''
end

-- The text to store, or false where nothing needs remembering.
local function live(attempts, losses, flags, note)
  if attempts == 0 and losses == 0 and flags == '' and note == '' then return false end
  local text = format('%d %d %s', attempts, losses, flags)
  if note ~= '' then text = text .. '\n' .. note end
  return text
end

local function live_write(id, text, before)
  if text then call('HSET', LIVE, id, text) elseif before then call('HDEL', LIVE, id) end
end
