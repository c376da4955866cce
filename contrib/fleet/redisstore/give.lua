-- Takes tokens back from a block. Follows account.lua.
n = math.min(n, has or 0)
if n > 0 then
	redis.call('HINCRBY', tokens, block, -n)
	redis.call('HINCRBY', tokens, 't', -n)
end
return 0
