-- Claims a name and releases it, again and again. TOKEN and FIRST come from the environment.
-- A connection takes whatever is next: the release of a claim that was granted, or a new claim.
local token = os.getenv("TOKEN")
local number = tonumber(os.getenv("FIRST") or "0")
local headers = { ["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json" }
local granted, first, last = {}, 1, 0

function init(_)
  math.randomseed(os.time())
  failed = 0
end

function request()
  if first <= last then
    local lease = granted[first]
    granted[first] = nil
    first = first + 1
    return wrk.format("POST", "/locks/" .. lease[1] .. "/release", headers, '{"lease_id":"' .. lease[2] .. '"}')
  end
  number = (number + 1) % 20000
  return wrk.format("POST", "/locks/job-" .. number .. "/acquire", headers, '{"ttl_seconds":60,"metadata":"host=runner-7"}')
end

function response(status, _, body)
  if status ~= 200 then
    failed = failed + 1
    return
  end
  local lease = body:match('"lease_id":"([^"]+)"')
  if lease then
    last = last + 1
    granted[last] = { body:match('"name":"([^"]+)"'), lease }
  end
end
