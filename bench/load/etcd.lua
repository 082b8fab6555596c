-- Claims a name and releases it over etcd's JSON gateway. Without LEASE each claim has a lease of its own, as a
-- worker needs whose locks shall not depend on anybody else's heartbeat: grant, put if absent, revoke. With LEASE all
-- claims hang on that one: put if absent, delete.
local shared = os.getenv("LEASE")
local turn, number = os.getenv("TURN"), 0
local headers = { ["Content-Type"] = "application/json" }
local steps, first, last = {}, 1, 0
local threads = {}
steps_done, failed = 0, 0

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local function base64(text)
  local out = {}
  for start = 1, #text, 3 do
    local a, b, c = text:byte(start, start + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    for place = 0, 3 do
      local six = math.floor(bits / 64 ^ (3 - place)) % 64 + 1
      out[#out + 1] = (place == 2 and not b or place == 3 and not c) and "=" or alphabet:sub(six, six)
    end
  end
  return table.concat(out)
end
local value = base64("host=runner-7")

local function put(key, lease)
  return wrk.format("POST", "/v3/kv/txn", headers,
    '{"compare":[{"key":"' .. key .. '","target":"CREATE","createRevision":"0"}],"success":[{"requestPut":{"key":"' ..
    key .. '","value":"' .. value .. '","lease":"' .. lease .. '"}}],"failure":[{"requestRange":{"key":"' .. key .. '"}}]}')
end

-- The answer to a put does not tell its key. What is released is therefore a claim of some time ago, whose answer has
-- come for certain, since each connection has one request under way.
local lag = 4 * tonumber(os.getenv("CONNECTIONS"))
local claimed = { first = 1, last = 0 }

function setup(thread)
  table.insert(threads, thread)
end

function request()
  if first <= last then
    local step = steps[first]
    steps[first] = nil
    first = first + 1
    return step()
  end
  if not shared then
    return wrk.format("POST", "/v3/lease/grant", headers, '{"TTL":"60"}')
  end
  number = (number + 1) % 5000
  local key = base64("job-" .. turn .. "-" .. number)
  claimed.last = claimed.last + 1
  claimed[claimed.last] = key
  return put(key, shared)
end

local function release()
  local known = claimed[claimed.first]
  claimed[claimed.first] = nil
  claimed.first = claimed.first + 1
  if shared then
    return wrk.format("POST", "/v3/kv/deleterange", headers, '{"key":"' .. known .. '"}')
  end
  return wrk.format("POST", "/v3/lease/revoke", headers, '{"ID":"' .. known .. '"}')
end

local function later(step)
  last = last + 1
  steps[last] = step
end

function response(status, _, body)
  if status ~= 200 then
    failed = failed + 1
  elseif body:find('"TTL"', 1, true) then
    steps_done = steps_done + 1
    local lease = body:match('"ID":"(%d+)"')
    number = (number + 1) % 5000
    local key = base64("job-" .. turn .. "-" .. number)
    later(function()
      claimed.last = claimed.last + 1
      claimed[claimed.last] = lease
      return put(key, lease)
    end)
  elseif body:find('"succeeded":true', 1, true) then
    steps_done = steps_done + 1
    if claimed.last - claimed.first > lag then
      later(release)
    end
  elseif body:find('"responses"', 1, true) then
    failed = failed + 1
  else
    steps_done = steps_done + 1
  end
end

function done()
  print("steps " .. threads[1]:get("steps_done") .. " failed " .. threads[1]:get("failed"))
end
