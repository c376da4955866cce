-- Closes a circuit for the holder of its lease. Follows circuit.lua.
local by, seen, linger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if opened and generation == seen and holds(by) then
	generation, opened, ends, widest = generation + 1, nil, 0, 0
	redis.call('DEL', key)
	redis.call('HSET', key, 'g', text(generation))
	keep(now, linger)
end
return answer(by)
