-- number: how a script reads the numbers it is given.

-- A whole number without sign, in range; nil for anything else (tonumber alone takes nan, 0x10 and 1e400).
local function whole(text, max)
  if not text or #text > 16 or not string.find(text, '^%d+$') then return nil end
  local number = tonumber(text)
  if number > max then return nil end
  return number
end
