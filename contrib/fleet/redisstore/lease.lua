-- Gives, extends or ends the lease of a half-open circuit. Follows circuit.lua.
local by, d, linger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not opened or opened > now or leased > now and holder ~= by then return answer(by) end
if d > 0 then
	holder, leased = by, now + d
	redis.call('HSET', key, 'h', holder, 'l', text(leased))
	keep(leased, linger)
else
	holder, leased = false, 0
	redis.call('HDEL', key, 'h', 'l')
end
return answer(by)
