-- totals: what a shard's meta record has counted.

-- How many bodies the totals say there are. `mended` is what heal found them to be off by.
local function counted_bodies()
  local t = call('HMGET', META, 'enqueued', 'adopted', 'mended', 'closed', 'skipped', 'cancelled', 'evicted')
  for i = 1, 7 do t[i] = tonumber(t[i] or 0) end
  return t[1] + t[2] + t[3] - t[4] - t[5] - t[6] - t[7]
end
