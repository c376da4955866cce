-- Votes for opening a circuit, or opens it. Follows circuit.lua.
local by, voter, seen = ARGV[1], 'v:' .. ARGV[2], tonumber(ARGV[3])
local open, again, quorum, linger = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if opened and opened > now or generation > seen then return answer(by) end
if not holds(by) then
	local votes, all = 1, redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		if string.sub(all[i], 1, 2) == 'v:' and all[i] ~= voter then
			local till = tonumber(all[i + 1])
			if till > now and till <= latest then votes = votes + 1 else redis.call('HDEL', key, all[i]) end
		end
	end
	if votes < quorum then
		redis.call('HSET', key, voter, text(now + open))
		keep(now + open, linger)
		return answer(by)
	end
end
generation, opened, openings, holder, leased, ends, widest = seen + 1, now + open, again, false, 0, 0, 0
redis.call('DEL', key)
redis.call('HSET', key, 'g', text(generation), 'o', text(opened), 'n', text(openings))
keep(opened, linger)
return answer(by)
