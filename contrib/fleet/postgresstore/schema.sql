-- What a fleet knows need not survive a crash, so the tables are unlogged. All
-- times are those of the server's clock_timestamp(), which goes on within a
-- transaction.

create unlogged table if not exists backoff_circuit (
	key        text primary key,
	generation bigint not null default 0,
	opened     timestamptz,                   -- until when; null: closed
	openings   int not null default 0,
	holder     text,                          -- of the lease
	leased     timestamptz,                   -- until when
	votes      jsonb not null default '{}',   -- until when, in seconds, by voter
	forget     timestamptz not null default '-infinity'
);
create index if not exists backoff_circuit_forget on backoff_circuit (forget);

create unlogged table if not exists backoff_block (
	key    text not null,
	block  text not null,
	tokens int not null,
	until  timestamptz not null,
	primary key (key, block)
);
alter table backoff_block add column if not exists lasts interval; -- null: not known
create index if not exists backoff_block_until on backoff_block (until);

-- How many seconds are left until t.
create or replace function backoff_seconds(t timestamptz, now timestamptz) returns float8
language sql immutable as $$ select greatest(0, coalesce(extract(epoch from t - now), 0))::float8 $$;

-- What a process is told about a circuit.
create or replace function backoff_answer(c backoff_circuit, by text, now timestamptz,
	out generation bigint, out tripped boolean, out open float8, out openings int, out leased float8, out mine boolean)
language sql immutable as $$
	select coalesce(c.generation, 0), c.opened is not null,
		case when c.opened is null then 0 else backoff_seconds(c.opened, now) end,
		case when c.opened is null then 0 else c.openings end,
		case when c.opened is null then 0 else backoff_seconds(c.leased, now) end,
		c.opened is not null and coalesce(c.holder = by and c.leased > now, false)
$$;

-- The row of a circuit, locked. It is empty if there was none, or its time is over.
create or replace function backoff_lock(k text, out c backoff_circuit)
language plpgsql as $$
begin
	loop
		select * into c from backoff_circuit where key = k for update;
		exit when found;
		insert into backoff_circuit (key) values (k) on conflict do nothing;
	end loop;
	if c.forget <= clock_timestamp() then
		c.generation := 0; c.opened := null; c.openings := 0; c.holder := null; c.leased := null; c.votes := '{}';
		c.forget := '-infinity';
	end if;
end $$;

-- The row of a circuit, locked; null if there is none, or its time is over.
create or replace function backoff_find(k text, out c backoff_circuit)
language plpgsql as $$
begin
	select * into c from backoff_circuit where key = k for update;
	if c.forget <= clock_timestamp() then
		c := null;
	end if;
end $$;

-- Writes the row of a circuit.
create or replace function backoff_save(c backoff_circuit) returns void
language sql as $$
	update backoff_circuit set generation = c.generation, opened = c.opened, openings = c.openings,
		holder = c.holder, leased = c.leased, votes = c.votes, forget = c.forget where key = c.key
$$;

-- Deletes some of the rows whose time is over, before a new one is inserted.
create or replace function backoff_sweep() returns void
language sql as $$
	delete from backoff_circuit where key in
		(select key from backoff_circuit where forget <= clock_timestamp() order by forget limit 10 for update skip locked);
	delete from backoff_block where (key, block) in
		(select key, block from backoff_block where until <= clock_timestamp() order by until limit 10 for update skip locked);
$$;

-- Returns what is known of a circuit, without a lock.
create or replace function backoff_load(k text) returns record
language plpgsql stable as $$
declare
	c backoff_circuit;
	now timestamptz := clock_timestamp();
begin
	select * into c from backoff_circuit where key = k and forget > now;
	return backoff_answer(c, null, now);
end $$;

-- Votes for opening a circuit. It opens with the last vote of the quorum, or for
-- the holder of its lease.
create or replace function backoff_trip(k text, by text, voter text, seen bigint, open interval, again int, quorum int, linger interval)
returns record
language plpgsql as $$
declare
	c backoff_circuit;
	now timestamptz;
begin
	perform backoff_sweep();
	c := backoff_lock(k);
	now := clock_timestamp(); -- after the lock was waited for
	if c.opened > now or c.generation > seen then
		return backoff_answer(c, by, now);
	end if;
	if not coalesce(c.holder = by and c.leased > now, false) then
		select coalesce(jsonb_object_agg(v.key, v.value), '{}') into c.votes from jsonb_each(c.votes) v
			where v.value::text::float8 > extract(epoch from now);
		c.votes := c.votes || jsonb_build_object(voter, extract(epoch from now + open));
		if (select count(*) from jsonb_object_keys(c.votes)) < quorum then
			c.forget := greatest(c.forget, now + open + linger);
			perform backoff_save(c);
			return backoff_answer(c, by, now);
		end if;
	end if;
	c.generation := seen + 1;
	c.opened := now + open; c.openings := again;
	c.holder := null; c.leased := null; c.votes := '{}';
	c.forget := c.opened + linger;
	perform backoff_save(c);
	return backoff_answer(c, by, now);
end $$;

-- Gives the lease of a half-open circuit, extends it, or ends it.
create or replace function backoff_lease(k text, by text, d interval, linger interval) returns record
language plpgsql as $$
declare
	c backoff_circuit := backoff_find(k);
	now timestamptz := clock_timestamp();
begin
	if c.opened is null or c.opened > now or coalesce(c.leased > now and c.holder <> by, false) then
		return backoff_answer(c, by, now);
	end if;
	if d > interval '0' then
		c.holder := by; c.leased := now + d;
		c.forget := greatest(c.forget, c.leased + linger);
	else
		c.holder := null; c.leased := null;
	end if;
	perform backoff_save(c);
	return backoff_answer(c, by, now);
end $$;

-- Closes a circuit for the holder of its lease.
create or replace function backoff_reset(k text, by text, seen bigint, linger interval) returns record
language plpgsql as $$
declare
	c backoff_circuit := backoff_find(k);
	now timestamptz := clock_timestamp();
begin
	if c.opened is not null and c.generation = seen and c.holder = by and c.leased > now then
		c.generation := c.generation + 1;
		c.opened := null; c.openings := 0; c.holder := null; c.leased := null; c.votes := '{}';
		c.forget := now + linger;
		perform backoff_save(c);
	end if;
	return backoff_answer(c, by, now);
end $$;

-- Grants tokens to a block.
create or replace function backoff_take(k text, name text, n int, allowance int, span interval) returns int
language plpgsql as $$
declare
	now timestamptz;
	granted int;
begin
	perform backoff_sweep();
	perform pg_advisory_xact_lock(hashtextextended('backoff ' || k, 0)); -- one at a time per key
	now := clock_timestamp();
	update backoff_block set until = now + lasts where key = k and until > now + lasts; -- the clock was set back
	select tokens into granted from backoff_block where key = k and block = name and until > now;
	if found then
		return granted;
	end if;
	granted := least(n, allowance - (select coalesce(sum(tokens), 0) from backoff_block where key = k and until > now));
	if granted <= 0 then
		return 0;
	end if;
	insert into backoff_block values (k, name, granted, now + span, span)
		on conflict (key, block) do update set tokens = excluded.tokens, until = excluded.until, lasts = excluded.lasts;
	return granted;
end $$;

-- Takes tokens back from a block.
create or replace function backoff_give(k text, name text, n int) returns void
language sql as $$
	update backoff_block set tokens = tokens - least(greatest(n, 0), tokens)
		where key = k and block = name and until > clock_timestamp()
$$;
